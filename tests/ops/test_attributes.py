"""The keys of operators' attributes: each that is read or given is declared, and each declared one is read."""

import pathlib
import re

import mxjax as mx
from mxjax.ops import manual, registry
from mxjax.ops.attributes import ATTRIBUTES, KEPT

from ..internals import outputs_of

PACKAGE = pathlib.Path(mx.__file__).parent
SOURCES = {p.relative_to(PACKAGE): p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")
           if p.name != "attributes.py"}
READ = r"""(?:\bget_attr|\bself\.attributes\.(?:get|setdefault|pop))\(\s*["'](\w+)"""
GIVEN = r"""(?:\bset_attr\(\s*|\bself\.attributes\[)["'](\w+)"""
NAMED = r"""\b(F[A-Z][a-z]\w+)(?:\s*=[^=]|["']:)"""  # register(..., FCheck=rule), {"FCheck": rule}


def _found(pattern, *folders):
    return {key for path, text in SOURCES.items() if not folders or path.parts[0] in folders
            for key in re.findall(pattern, text)}


def test_every_key_that_is_read_is_declared_and_the_other_way_round():
    assert _found(READ) == set(ATTRIBUTES)
    assert not set(ATTRIBUTES) & set(KEPT)


def test_every_key_that_is_given_is_declared():
    declared = {*ATTRIBUTES, *KEPT}
    given = _found(GIVEN) | _found(NAMED, "ops", "operator", "host_operators", "graph")
    assert {"FCompute", "FHost", "FCheck", "FResourceRequest", "flat_in_integers"} <= given <= declared
    loop = mx.sym.contrib.foreach(lambda x, s: (x + s, s), mx.sym.var("data"), mx.sym.var("state"))[0]
    made = [*registry.operators(), *(node.op for node, _ in outputs_of(loop))]
    for op in made:
        assert set(op.attributes) <= declared, op.name
    assert any("x64" in op.attributes for op in made[-1:])  # the loop's, which is made for its graph


def test_users_have_keys_of_their_own():
    op = registry.Op("attributes_of_my_own").set_attr("MyKey", 3).set_attr("FInplaceOption", [(0, 0)])
    assert op.get_attr("MyKey") == 3 and op.get_attr("FInplaceOption") == [(0, 0)]
    assert op.get_attr("YourKey", 4) == 4


def test_documentation_lists_all_keys():
    for key in (*ATTRIBUTES, *KEPT):
        assert f"\n    {key} " in registry.Op.__doc__


def test_each_parameter_has_a_meaning():
    """The documentation tells what each parameter means, and nothing of parameters that are not there."""
    used = set()
    for op in registry.operators():
        for parameter in op.params if not op.name.startswith("test_") else ():  # those are other tests'
            place = f"{op.name} {parameter}"
            assert manual.meaning(op.name, parameter), place
            used.add(place if place in manual.MEANINGS else parameter)
    assert not set(manual.MEANINGS) - used
