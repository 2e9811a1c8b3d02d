"""Requests that cannot be met: each is an error that says what and how much, and the process goes on."""

import subprocess
import sys

import pytest

_LARGE = """
nd.arange(0, 1e13)
nd.arange(0, 1, 1e-13)
nd.eye(2**20, 2**20)
nd.one_hot(nd.array([1, 2]), depth=2**40)
nd.tile(nd.ones((2,)), reps=(100000,) * 5)
nd.Convolution(nd.ones((1, 1, 4, 4)), nd.ones((1, 1, 3, 3)), kernel=(3, 3), num_filter=1, no_bias=True, pad=[2**30] * 2)
nd.Deconvolution(nd.ones((1, 1, 4, 4)), nd.ones((1, 1, 3, 3)), kernel=(3, 3), num_filter=1, stride=(2**20, 2**20))
nd.Pooling(nd.ones((1, 1, 4, 4)), kernel=(2**30 + 4, 2**30 + 4), pad=(2**30, 2**30), pool_type="avg")
mx.np.eye(2**25)
mx.np.bincount(mx.np.array([2**44], dtype="int64"))
mx.np.bincount(mx.np.array([1], dtype="int64"), minlength=2**42)
nd.zeros((2**40,))
nd.ones((2**20, 2**20))
nd.full((2**36,), 3)
nd.empty((2**40,))
nd.zeros((2**31, 2**31, 2**31))
nd.random.uniform(shape=(2**40,))
nd.random.normal(shape=(2**20, 2**20))
nd.random.randint(0, 5, shape=(2**38,))
nd.random.multinomial(nd.array([0.5, 0.5]), shape=2**40)
nd.sample_uniform(nd.zeros((2**10,)), nd.ones((2**10,)), shape=(2**30,))
nd.repeat(nd.ones((4,)), repeats=2**40)
nd.broadcast_to(nd.ones((1, 1)), shape=(2**20, 2**20))
nd.pad(nd.ones((1, 1, 2, 2)), mode="constant", pad_width=(0, 0, 0, 0, 2**30, 2**30, 2**30, 2**30))
nd.linspace(0, 1, 2**40)
nd.diag(nd.ones((2**20,)))
nd.dot(nd.ones((2**18, 1)), nd.ones((1, 2**18)))
nd.ones((2**18, 1)) + nd.ones((2**18,))
nd.UpSampling(nd.ones((1, 1, 64, 64)), scale=2**14, sample_type="nearest")
nd.contrib.BilinearResize2D(nd.ones((1, 1, 4, 4)), height=2**20, width=2**20)
nd.contrib.AdaptiveAvgPooling2D(nd.ones((1, 1, 4, 4)), output_size=2**20)
nd.ROIPooling(nd.ones((1, 1, 4, 4)), nd.array([[0, 0, 0, 3, 3]]), pooled_size=(2**20, 2**20), spatial_scale=1.0)
nd.GridGenerator(nd.ones((1, 6)), transform_type="affine", target_shape=(2**20, 2**20))
nd.Correlation(nd.ones((1, 1, 8, 8)), nd.ones((1, 1, 8, 8)), max_displacement=2**20, pad_size=2**20)
nd.im2col(nd.ones((1, 1, 64, 64)), kernel=(3, 3), pad=(2**20, 2**20))
nd.sparse.zeros("csr", (2**40, 2**40)).tostype("default")
nd.sparse.zeros("csr", (2**20, 2**40)).tostype("default")
nd.sparse.zeros("row_sparse", (2**40, 4)).tostype("default")
mx.np.zeros((2**40,))
mx.np.arange(1e13)
mx.np.tile(mx.np.ones((2,)), 10**12)
mx.np.random.uniform(size=(2**40,))
mx.np.indices((2**20, 2**20))
mx.np.outer(mx.np.ones((2**19,)), mx.np.ones((2**19,)))
mx.np.tensordot(mx.np.ones((2**19,)), mx.np.ones((2**19,)), axes=0)
mx.np.meshgrid(mx.np.ones((2**19,)), mx.np.ones((2**19,)))
mx.sym.broadcast_to(mx.sym.var("x"), shape=(2**20, 2**20)).eval(x=nd.ones((1, 1)))[0]
mx.nd.CachedOp(mx.sym.tile(mx.sym.var("x"), reps=(100000,) * 5) + 1)(nd.ones((2,)))
mx.sym.sum(mx.sym.tile(mx.sym.var("x"), reps=(100000,) * 5)).eval(x=nd.ones((2,)))[0]
""".strip().splitlines()

_WRONG = """
nd.one_hot(nd.array([1]), depth=-3)
nd.Deconvolution(nd.ones((1, 1, 4, 4)), nd.ones((1, 1, 3, 3)), kernel=(3, 3), num_filter=1, stride=(2, 2), adj=(2, 2))
nd.Pooling(nd.ones((1, 1, 4, 4)), kernel=(2, 2), pad=(2, 2), pool_type="max")
nd.Pooling(nd.ones((1, 1, 4, 4)), kernel=(2, 2), pad=(3, 3), pool_type="avg")
nd.array([1, 2])[nd.array([5])]
nd.array([1, 2])[nd.array([-3])]
nd.array([[1, 2]])[:, nd.array([2])]
mx.np.array([1, 2])[mx.np.array([5], dtype="int64")]
nd.scatter_nd(nd.ones((1,)), nd.zeros((1, 1)), shape=(2**40,))
nd.split(nd.ones((4,)), num_outputs=2**30, axis=0)
nd.topk(nd.ones((4,)), k=2**40)
nd.Reshape(nd.ones((4,)), shape=(2**40,))
nd.arange(0, float("inf"))
nd.zeros((-3,))
nd.FullyConnected(nd.ones((2, 2)), nd.ones((2, 2)), num_hidden=2**40)
""".strip().splitlines()

_RUN = """
import sys

import pytest
import mxjax as mx
from mxjax import nd
for line in sys.stdin:
    try:
        found = eval(line)
        (found[0] if isinstance(found, (list, tuple)) else found).wait_to_read()
        answer = "made"
    except Exception as error:
        answer = type(error).__name__ + " " + str(error).splitlines()[0]
    print(answer, flush=True)
print("alive", (nd.ones((2,)) + 1).asnumpy()[0], flush=True)
"""


def _answers(lines, seconds):
    """What a process says to each line; "crash" or "hang" where it ended there."""
    done = subprocess.Popen([sys.executable, "-c", _RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        out, _ = done.communicate("\n".join(lines) + "\n", timeout=seconds)
        end = "crash"
    except subprocess.TimeoutExpired:
        done.kill()
        out, _ = done.communicate()
        end = "hang"
    answers = out.splitlines()
    return answers + [end] * (len(lines) + 1 - len(answers))


@pytest.mark.slow
def test_requests_beyond_the_machine(tally, effort):
    lines = _LARGE + _WRONG
    for line, answer in zip([*lines, "after all"], _answers(lines, 240), strict=True):
        kind = answer.split()[0]
        if kind in ("crash", "hang"):
            tally.count(kind, line)
        elif line in _LARGE:
            tally.count("refused" if kind == "MXNetError" and ("takes" in answer or "memory" in answer) else "differs",
                        f"{line}: {answer}")
        elif line in _WRONG:
            tally.count("refused" if kind in ("MXNetError", "IndexError") else "differs", f"{line}: {answer}")
        else:
            tally.count("ok" if answer == "alive 2.0" else "differs", answer)
