"""Kinds of errors, each with a short code: `python -m mxjax explain CODE` prints its cause and solution.

The kind of an error is the `code` of its class, or the first pattern that its message matches. The
code is appended when the message is shown, so code that raises errors need not know it. The
sections of `mxjax/tools/errors.md` have these codes.
"""

from __future__ import annotations

import re

__all__ = ["CODES", "addressed", "kind_of"]

# (code, pattern), the first that fits counts: the particular ones before the general ones
_PATTERNS = [(code, re.compile(pattern, re.IGNORECASE)) for code, pattern in (
    ("deferred-initialization", r"initialization was deferred"),
    ("not-initialized", r"^Parameter .* has not been initialized"),
    ("parameters-do-not-match", r"Parameters? .*(is missing in file|is not present in|does not start with|"
                                r"saved (shape|dtype) is)"),
    ("not-exported", r"then run forward with this block|has not been hybridized and called"),
    ("checkpoint-mismatch", r"belongs to another network|(is|are) .* in the checkpoint, expected|"
                            r"has the (shape|dtype) .* in the checkpoint"),
    ("secret-missing", r"(needs a|requires the) secret|MXJAX_CLUSTER_TOKEN to a random text|a secret must have"),
    ("secret-refused", r"it has another secret|prove that it knows the secret|the secret of the job"),
    ("workers-disagree", r"all (workers )?must (pass|make) the same"),
    ("worker-lost", r"scheduler is lost|has closed the connection|the job has ended|"
                    r"cannot be reached within|is lost: "),
    ("kvstore-key", r"^(push to |pull of )?key .* (has not been|is already) initialized|unknown kvstore"),
    ("environment-variable", r"^[A-Z][A-Z_]{5,}='?.*: expected|\b(MXNET|MXJAX|DMLC)_\w+='?.*: expected"),
    ("out-of-memory", r"out of memory|RESOURCE_EXHAUSTED"),
    ("plan-does-not-fit", r"not even a batch"),
    ("compiler-missing", r"there is no compiler for|compiler for .* (rejects|exited)"),
    ("package-missing", r"pip install (?!'mxjax\[cuda1)"),
    ("device-missing", r"is not available: JAX sees|is not a known device|unknown device type"),
    ("no-device-starts", r"JAX cannot initialize any device"),
    ("context-mismatch", r"was not initialized on context|"
                         r"must be on one kind of device|argument .* is on .*, the executor on"),
    ("not-a-context", r"a context such as"),
    ("cuda-source", r"CUDA C source|MXNet's C\+\+ (interface|library)"),
    ("forked-process", r"process that was forked|this process was forked"),
    ("engine", r"^engine: "),
    ("value-lost", r"value is lost|value was never computed|was interrupted when"),
    ("jax-transformation", r"JAX transformation"),
    ("host-operator", r"runs on the host|Python code run by the engine"),
    ("deferred-compute", r"deferred compute|while (its body is traced|.* is traced)"),
    ("in-place-while-recording", r"Inplace operations|out= an array with attach_grad"),
    ("not-recorded", r"not in a computational graph|no array in the graph|not part of (the|a recorded) graph"),
    ("graph-freed", r"a previous backward has freed"),
    ("head-gradients", r"head gradient"),
    ("custom-operator", r"^Custom: |custom operator"),
    ("unknown-parameter", r"^operator .* has no parameter"),
    ("missing-parameter", r"required parameter"),
    ("parameter-value", r"parameter \w+ must be|the parameters must satisfy|must be one of|must be positive"),
    ("unknown-operator", r"there is no operator"),
    ("number-of-inputs", r"(takes|expects) \d+ (inputs|arrays)|"
                         r": input .* is missing|multiple values for input|group of \d+ outputs"),
    ("unknown-shape", r"shape is (not known|unknown)|its shape cannot be inferred|"
                      r"shapes? of .* (is (not known|unknown)|cannot be (inferred|worked out))|"
                      r"nothing tells the shape|leaves an output unknown"),
    ("dtype-mismatch", r"the same dtype|dtypes of both|must be of dtype|requires floating-point|boolean arrays|"
                       r"a single dtype|takes integers|cannot store a result of dtype"),
    ("axis-out-of-range", r"axis.* (is out of range|contains a repeated axis)"),
    ("unpack-limit", r"MXJAX_UNPACK_LIMIT"),
    ("image-decoding", r"Decoding failed|cannot be decoded|empty buffer"),
    ("not-a-symbol-file", r"not a symbol"),
    ("sparse-arrays", r"storage type|^csr: |^row_sparse|must be row_sparse|sparse NDArray"),
    ("file-damaged", r"Invalid \w+ (file|list)|cannot be read as|is (damaged|corrupt)|"
                     r"^invalid (record|index|CSV|MNIST|LibSVM)"),
    ("file-missing", r"No such file|there is no such (file|model|folder)|cannot open|not found\.$|does NOT exist|"
                     r"folder .* does not exist|the directory .* does not exist"),
    ("index-out-of-range", r"out of (range|bounds)"),
    ("batch-size", r"batch_size must be|cannot be filled|bigger than the batch size|cannot be (split|divided)"),
    ("onnx", r"\bONNX\b"),
    ("no-counterpart", r"no counterpart"),
    ("shape-mismatch", r"cannot be broadcast|must (agree|match)|do not (fit|match)|does not (fit|match|broadcast)|"
                       r"must have the (same )?shape|"
                       r"shapes .* differ|Cannot (concatenate|reshape)|has shape .*, (but|the)|"
                       r"cannot be multiplied|numbers of dimensions|larger than the (padded )?input|"
                       r"(takes|requires) data|must have (the same number of|\d+) dimensions"),
)]
# kinds that classes have
_OF_CLASSES = ("symbol-in-block", "call-order", "service-busy")
CODES = (*(code for code, _ in _PATTERNS), *_OF_CLASSES)

_ADDRESS = re.compile(r" ?\[mxjax explain [a-z-]+\]")


def kind_of(message: str) -> str:
    """Returns the code of a message's kind; "" if it has none.

    Example:
        >>> kind_of("operator dot: shapes (2, 3) and (4, 2) do not match")
        'shape-mismatch'
    """
    return next((code for code, pattern in _PATTERNS if pattern.search(message)), "")


def addressed(message: str, code: str = "") -> str:
    """Returns a message with its code at the end, and without the codes of other errors that it quotes.

    Example:
        >>> addressed("operator dot: shapes (2, 3) and (4, 2) do not match")
        'operator dot: shapes (2, 3) and (4, 2) do not match [mxjax explain shape-mismatch]'
    """
    plain = _ADDRESS.sub("", message)
    code = code or kind_of(plain)
    return f"{plain} [mxjax explain {code}]" if code else plain
