"""The keys of operator attributes that the library reads.

`Op.set_attr` takes any other key as well. Rules of shapes and dtypes (FInferShape, FInferType) are functions that may
have two marks of their own: with `wants_names` they get the inputs' names as a fourth argument; `complete` says that
where inputs are partly unknown there is nothing to be added to what the rule finds; `exact`, that where they are known
nothing need be evaluated for the outputs (see `infer.exact` for formulas).
"""

from __future__ import annotations

import textwrap

__all__ = ["ATTRIBUTES", "KEPT", "table"]

ATTRIBUTES: dict[str, str] = {
    # ------------------------------------------------------------ computation
    "FCompute":
        "function(*inputs, **params) of JAX arrays -> array or tuple of arrays; its signature declares inputs and "
        "parameters",
    "FInPlace": "FCompute where the result is written over the first input, of operators for which it is another one",
    "FGradient":
        "function(head_grads, inputs, outputs, **params) -> gradients of the inputs (None: zero); absent: the "
        "mathematical derivative, by `jax.vjp`",
    "FConstant":
        "function(params, names of the inputs) -> the names of those whose gradients are always zero: a backward pass "
        "ends there, so a zero is never multiplied by an infinite derivative; all, if FGradient is `no_gradient`",
    "ignores_heads":
        "True where FGradient does not depend on the head gradients, as of losses: the backward pass also starts at "
        "such an operator if only zeros reach it, behind an input in FConstant",
    "FHost":
        "function(params, NDArrays, context) -> NDArrays: the operator runs on the host, recording itself on the tape; "
        "in a graph it cuts the compiled program in two",
    "keeps":
        "True where FHost has a fourth parameter: a dictionary for what a node of an executor keeps from call to call, "
        "or None",
    "FPart":
        "function(params, shape of the input) -> the index that reads the same elements: calls with ever new positions "
        "become indexing, which is one program",
    "x64": "True, or function(params) -> whether the program needs JAX's 64-bit mode, whatever its inputs are",
    "train_when": "function(params) -> whether training is another computation, where `_train` is asked for",
    "eager_when": "function(params) -> whether imperative calls check the values, so are not compiled",
    "FDraw":
        "function(source, params, inputs, train) -> what the operator draws on CPUs, a NumPy array out of MXNet's "
        "source (never uint32), or None where it draws nothing or leaves it to JAX: the output itself where there are "
        "no inputs, else what FCompute gets for `_key`, as `Drawn`; the inputs are arrays, or their shapes and dtypes",
    "draws_by_value": "True where FDraw needs the inputs' values",
    "rows_when":
        "function(params) -> whether the gradient of the second input, a table that is looked up, is row_sparse where "
        "its array is",
    "keeps_result_when":
        "function(params) -> whether the derivative at the only input is that at the result, as of relu: a recorded "
        "call keeps the result in the input's place, which the next call keeps anyway",
    "FStored": "function(params) -> the storage type that an imperative call gives its result, or None: what it has",
    "flat_in_integers": "True where MXNet's gradients of integer inputs are 0",
    # ------------------------------------------------------------ inputs and outputs
    "FListInputNames": "function(params) -> names of the inputs that these parameters ask for",
    "own_count": "True where the parameter that counts `*args` is the caller's to give, and does not follow from them",
    "FListOutputNames": "function(params) -> names of the outputs",
    "FNumOutputs": "int or function(params)",
    "FNumVisibleOutputs": "int or function(params): outputs beyond that are internal",
    "FHiddenOutputs": "name of the parameter with which outputs are visible that files may refer to though it is unset",
    "FMutateInputs":
        "names, or function(params) -> names, of the inputs whose new values FCompute returns after its outputs",
    "arguments_changed": "names in FMutateInputs of inputs that graphs have as arguments, not as auxiliary states",
    "FDecay":
        "function(params) -> how much of its old value is in the new one of each input in FMutateInputs; on CPUs these "
        "change in the backward pass, in training, and not in the forward",
    "FFixed": "function(params) -> {input: number}: what each call, also of a graph, writes to inputs that it ignores",
    "FTakesOut": "function(params) -> whether `out=`, where given, is a last input too",
    "FSetInputVarAttrOnCompose":
        "{input: {attribute: text}} for the variables of a symbol that become these inputs, such as `__init__`",
    # ------------------------------------------------------------ shapes and dtypes
    "FInferShape": "function(params, in_shapes, out_shapes): refines both lists in place (see `infer`)",
    "FUneven":
        "function(params, in_shapes) -> whether the shape of the result depends on values: of a condition whose "
        "branches give different ones; the operator's `hosted()` then runs imperatively",
    "FPartialShape":
        "function(params, *in_shapes) -> shapes of the outputs where inputs are partly unknown, for what FCompute "
        "cannot do with symbols for sizes; or of known inputs, too, without evaluation (see `infer.exact`)",
    "FInferType": "function(params, in_dtypes, out_dtypes): as FInferShape, for dtypes' names",
    "FShapeKnown": "function(params) -> whether the parameters alone tell the shape; of operators that make arrays",
    # ------------------------------------------------------------ refusals
    "FCheck": "function(params) -> None, or an exception, raised only when the result is looked at",
    "FRefuse":
        "function(params, inputs, outputs) -> None, or an exception, raised when the result is looked at; asked where "
        "there are inputs and the operator is not part of a larger program, which graphs with it are not",
    "refuses_calls_alone": "True where graphs are one program in spite of FRefuse, and let everything pass",
    # ------------------------------------------------------------ resources
    "FResourceRequest":
        "names out of \"random\", \"temp_space\"; a random key comes where FCompute's signature has `_key`, and space "
        "is XLA's own business",
    # ------------------------------------------------------------ signatures
    "hidden": "names of inputs and parameters that signatures leave out, as MXNet's do",
    "opaque": "True where the arguments depend on the parameters: the signature is (*data, **kwargs)",
    "variadic_name": "what FCompute calls its `*args`; noted when FCompute is set",
    "arguments":
        "(name, type, description) of each `add_argument`; the names go before those in FCompute's signature",
}

KEPT: dict[str, str] = {  # MXNet's, which operators and scripts give
    "FInplaceOption": "pairs (input, output) that may share memory; XLA finds them by itself",
    "TIsBackward": "True for operators that only backward passes use",
}


def table() -> str:
    """All keys with their meanings, as text for a docstring."""
    kept = {key: f"kept for MXNet's sake, nothing reads it: {text}" for key, text in KEPT.items()}
    rows = [*ATTRIBUTES.items(), *kept.items()]
    width = max(len(key) for key, _ in rows) + 2
    return "\n".join(textwrap.fill(text, 120, initial_indent=f"    {key:{width}}", subsequent_indent=" " * (width + 4))
                     for key, text in rows)
