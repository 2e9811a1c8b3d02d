"""What replaces MXNet's names: the table, what `convert` knows, `doctor --map`."""

import importlib
import json
import re
from pathlib import Path

import pytest

from mxjax import __main__ as commands
from mxjax.base import MXNetError
from mxjax.tools import counterparts


def resolved(name):
    """The thing that a dotted name stands for; None where it is not there."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            found = getattr(found, part, None)
        return found
    return None


def test_names_of_jax_flax_and_optax_are_there():
    lacking = {name for told in counterparts.table().values()
               for name in re.findall(r"\b(?:jax|flax|optax|numpy|itertools)(?:\.\w+)+", told.jax)
               if resolved(name) is None}
    assert not lacking


def test_names_of_mxnet_are_there():
    """In mxjax, or in MXNet 2: the inventory of the documentation's map."""
    inventory = json.loads((Path(__file__).parents[2] / "tools/docs/names.json").read_text())["2.0.0b1"]
    later = {f"{module}.{name}".strip(".") for module, names in inventory.items() for name in names.split()}
    lacking = [name for name in counterparts.table() if not name.startswith(".") and name not in later
               and resolved(f"mxjax.{name}") is None]
    assert not lacking


@pytest.mark.parametrize("name,jax,torch", [
    ("gluon.nn.Dense", "flax.nnx.Linear", "torch.nn.Linear"),
    ("gluon.metric.F1", "sklearn.metrics.f1_score", "torchmetrics.F1Score"),
    ("symbol.Concat", "jax.numpy.concatenate", "torch.cat"),  # an alias, of a symbol
    ("nd.rsqrt", "jax.lax.rsqrt(x)", "torch.rsqrt(x)"),  # what `convert` writes
    ("nd.softsign", "jax.nn.soft_sign", "torch.nn.functional.softsign"),
    ("np.linalg.svd", "jax.numpy.linalg.svd", "torch.linalg.svd"),
    (".hybridize", "jax.jit", "torch.compile"),
])
def test_what_replaces_a_name(name, jax, torch):
    assert counterparts.find(name)[:2] == (jax, torch)


def test_names_that_nothing_replaces():
    assert counterparts.find("nd.contrib.hawkesll") is None
    assert counterparts.find("whatever") is None


@pytest.mark.parametrize("text,told", [("nd.a | x | y | z | more", "expected NAMES"), (" | jax.grad", "expected NAMES"),
                                       ("nd.a | x\nnd.a | y", "nd.a is listed twice")])
def test_a_wrong_table_is_refused(monkeypatch, text, told):
    monkeypatch.setattr(counterparts.Path, "read_text", lambda *args, **kwargs: text)
    with pytest.raises(MXNetError, match=told):
        counterparts.table.__wrapped__()


SCRIPT = """from mxnet import gluon as g, nd
from mxnet.gluon.nn import Dense
net = Dense(3)
net.hybridize()
print(nd.sin(nd.NDArray.shape).asnumpy(), nd.contrib.hawkesll)
"""


def test_the_map_of_a_script(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    assert commands.main(["doctor", "--map", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix(f"{path}:").split(" (")[0] for line in lines[:-1]] == [
        "3: mx.gluon.nn.Dense -> flax.nnx.Linear | torch.nn.Linear", "4: .hybridize -> jax.jit | torch.compile",
        "5: .asnumpy -> jax.device_get | torch.Tensor.numpy, torch.Tensor.item",
        "5: mx.nd.sin -> jax.numpy.sin(x) | torch.sin(x)", "5: mx.nd.NDArray -> jax.Array | torch.Tensor",
        "5: mx.nd.contrib.hawkesll -> no counterpart is known"]
    assert lines[-1] == "1 files: 6 uses, 5 with a counterpart (JAX | PyTorch)"
    assert commands.main(["doctor", "--map", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["jax"] == "flax.nnx.Linear"
