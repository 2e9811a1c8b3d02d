"""Counts of the whole package that may fall, never rise: lower a number here when the count has fallen."""

import ast
import gc
import pathlib
import re
import sys

import pytest

import mxjax as mx

ROOT = pathlib.Path(mx.__file__).parent
CLAUSES = re.compile(r"(What|Whether|How|Where|Which|Who|Why|When)\b")
# Python calls within the package, and changes of file, of a step of each program (Python 3.11)
TRIPS = {"operator": (8, 5), "imperative step": (180, 129), "hybridized step": (92, 57), "module step": (76, 51),
         "whole step": (21, 15)}
# Names that begin with an underscore and are no looks inside: scripts for MXNet, or libraries on it, use them, so they
# must stay as they are, and tests call them as those do; of Python, `os._exit` and what old pickles name
USED = set("""_internal _LIB _Symbol _repr_html_ _replace _children _set_attr _exit _barrier _set_updater _bind
    _simple_bind _collect_params_with_prefix _get_lr _get_lrs _get_wd _get_wds _update_count _update_impl _at _slice
    _reduce _unfuse _load_init _finish_deferred_init _quantize_symbol _calibrate_quantized_sym
    _LayerHistogramCollector _get_optimal_threshold _get_optimal_thresholds _format_sequence
    _mask_sequence_variable_length _get_begin_state _reverse_sequences _apply_weighting _batch_mean _batch_sum
    _TokenEmbedding _MultiWorkerIter _parse_label _gate_names _reg_params
    _fresh_grad _gen_atomic_symbol _create_kvstore _create_sparse_kvstore _update_params _as_list _num_aux
    _basic_indexing_slice_is_contiguous _Null _ctx_map _stype _params _name _rate _BatchNorm _clear_cached_op
    _kvstore _kv_initialized _update_on_kvstore _amp_loss_scaler _sym_gen _buckets _split_input_slice
    _prepare_group2ctxs _worker_initializer _read_batch _model_sha1 _deferred_compute _reconstructor
    _thread_worker_initializer _thread_worker_fn _infer_weight_shape _init_data _has_instance""".split())


@pytest.fixture(scope="module", autouse=True)
def without_garbage_collection():
    """Collections would take two thirds of the time in which Python parses."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def sources():
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}


@pytest.fixture(scope="module")
def nodes(sources):
    """Returns the syntax nodes of each file."""
    return {name: list(ast.walk(ast.parse(text))) for name, text in sources.items()}


def test_private_parts_of_jax_are_imported_in_one_folder(sources):
    importing = {name for name, text in sources.items() if re.search(r"^\s*(from|import) jax\._src\b", text, re.M)}
    assert {pathlib.PurePosixPath(name).parts[0] for name in importing} == {"_xla"}


def test_one_place_gives_buffers_away(sources):
    assert {name for name, text in sources.items() if re.search(r"\.donating\(", text)} == {"eager/program.py"}


def test_threads_end_with_the_process(nodes):
    """No thread keeps a process whose main thread has ended; those of pools are joined or daemons themselves."""
    made = [node for nodes_of_file in nodes.values() for node in nodes_of_file
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "threading.Thread"]
    assert len(made) > 15
    assert {k.value.value for node in made for k in node.keywords if k.arg == "daemon"} == {True}
    assert all("daemon" in {k.arg for k in node.keywords} for node in made)


def test_private_files_at_the_top(sources):
    assert sum(name.startswith("_") and not name.startswith("__") for name in sources if "/" not in name) <= 5


def test_docstrings_that_are_clauses(nodes):
    """A docstring says what is returned or done: it begins with a verb, or names the thing."""
    count = 0
    for nodes_of_file in nodes.values():
        for node in nodes_of_file:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                count += bool(CLAUSES.match(ast.get_docstring(node) or ""))
    assert count == 0


def test_imports_inside_functions_say_why(sources, nodes):
    """One stays there for an optional dependency or a measured import time, with its reason beside it."""
    bare = []
    for name, nodes_of_file in nodes.items():
        lines = sources[name].split("\n")
        for function in nodes_of_file:
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bare += [f"{name}:{node.lineno}: {lines[node.lineno - 1].strip()}" for node in ast.walk(function)
                         if isinstance(node, ast.ImportFrom) and node.level and "#" not in lines[node.lineno - 1]]
    assert not bare


def test_no_function_is_long(nodes):
    """Docstrings aside, a function fits on a screen."""
    long = []
    for name, nodes_of_file in nodes.items():
        for node in nodes_of_file:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1 - len((ast.get_docstring(node) or "").splitlines())
                if lines > 60:
                    long.append(f"{name}: {node.name} has {lines} lines")
    assert not long


def test_few_arguments_may_be_anything(nodes):
    """A signature says what goes in: `Any` is left where an argument really may be anything."""
    arguments = anything = 0
    for nodes_of_file in nodes.values():
        for node in nodes_of_file:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                own = [argument for argument in own if argument.arg not in ("self", "cls", "mcs")]
                arguments += len(own)
                anything += sum(a.annotation is not None and ast.unparse(a.annotation) == "Any" for a in own)
    assert anything <= 0.05 * arguments


def _is_module(parent, name):
    path = ROOT.parent.joinpath(*parent.split("."), name)
    return path.is_dir() or path.with_suffix(".py").exists()


def _private_names(node):
    """Returns the private names that a syntax node reads from an object, or imports; modules may be private."""
    if isinstance(node, ast.Attribute):
        of = ast.unparse(node.value)
        names = [] if of in ("self", "cls", "super()") or of.endswith("._internal") else [node.attr]
    elif isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names if not _is_module(node.module or "", alias.name)]
    else:
        names = []
    return [name for name in names if re.match("_(?!_)", name) and name not in USED]


def test_tests_look_inside_in_one_place():
    """What a test must know of an object's inside, and no public method tells, has a name in `internals.py`."""
    looks = []
    for path in sorted(pathlib.Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.name != "internals.py" else ():
            looks += [f"{path.name}:{node.lineno}: {name}" for name in _private_names(node)]
    assert not looks


def test_private_attributes_of_other_objects(nodes):
    """Most of those left are names of MXNet, which subclasses and scripts use.

    What Python documents in spite of its underscore, and operators' names, do not count.
    """
    documented = {"_replace", "_asdict", "_current_frames", "_exit"}
    count = 0
    for nodes_of_file in nodes.values():
        for node in nodes_of_file:
            count += isinstance(node, ast.Attribute) and node.attr.startswith("_") and \
                not node.attr.startswith("__") and node.attr not in documented and \
                "._internal" not in ast.unparse(node) and ast.unparse(node.value) not in ("self", "cls", "super()")
    assert count <= 300


def _programs():
    """A step of each way to train a small network, and a call of an operator."""
    data, label = mx.nd.ones((4, 5)), mx.nd.array([0, 1, 2, 0])
    weight, bias = mx.nd.ones((3, 5)), mx.nd.ones(3)

    def network(hybrid):
        net, loss = mx.gluon.nn.HybridSequential(), mx.gluon.loss.SoftmaxCrossEntropyLoss()
        net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(3))
        net.initialize()
        for block in (net, loss) if hybrid else ():
            block.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

        def step():
            with mx.autograd.record():
                value = loss(net(data), label)
            value.backward()
            trainer.step(4)
        return step, mx.gluon.TrainStep(net, loss, trainer)
    hybridized, whole = network(True)
    scores = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(scores, name="softmax"))
    batches = mx.io.NDArrayIter(data, label, batch_size=4, label_name="softmax_label")
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params()
    module.init_optimizer()
    batch = next(batches)

    def module_step():
        module.forward_backward(batch)
        module.update()
    return {"operator": lambda: mx.nd.FullyConnected(data, weight, bias, num_hidden=3),
            "imperative step": network(False)[0], "hybridized step": hybridized, "module step": module_step,
            "whole step": lambda: whole(data, label)}


@pytest.mark.parametrize("name", TRIPS)
def test_a_step_goes_through_few_functions(name, at_once):
    step, trips = _programs()[name], []
    for count in (9, 3):  # until everything is compiled and cached, and no value waits for a compiler
        for _ in range(count):
            step()
        mx.nd.waitall()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            trips[-1].append(frame.f_code.co_filename)
    for _ in range(3):  # on a busy machine one step may also collect garbage or store a finished compilation
        trips.append([])
        sys.setprofile(note)
        try:
            step()
        finally:
            sys.setprofile(None)
    files = min(trips, key=len)
    changes = sum(one != other for one, other in zip(files, files[1:], strict=False))
    assert len(files) <= TRIPS[name][0]
    if sys.version_info < (3, 12):  # later ones run comprehensions in the function around them
        assert changes <= TRIPS[name][1]
