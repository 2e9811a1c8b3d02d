"""Differences that are accepted, each with its reason: those of docs/differences.md, what MXNet leaves undefined."""

import re
from dataclasses import dataclass


@dataclass
class Known:
    """Differences whose signature ("function | kind | where") matches `pattern` and whose case passes `when`."""

    pattern: str
    reason: str
    when: object = None

    def covers(self, signature: str, case: dict, difference: tuple) -> bool:
        """Whether a difference is one of these."""
        return bool(re.search(self.pattern, signature)) and (self.when is None or self.when(case, difference))


KNOWN = [
    Known(r"_(new_empty_handle|ndarray_cls)|indexing_(dispatch|key)|get_oshape|backward_\w+ \||gs_retain",
          "helpers of MXNet's own modules"),
    Known(r"random_pdf_uniform \| infinities", "the sign of a quotient by 0"),
    Known(r"rot90 \| values", "MXNet's gradient turns the wrong way"),
    Known(r"to_tensor \| (values|shape)", "MXNet's gradient is the head gradient itself",
          lambda case, _: case["record"]),
    Known(r"all_finite \| values", "without init_output MXNet reads memory that it never wrote"),
    Known(r"(potri|allclose|selfatt_qk|quantile|percentile) \| only mxjax raises",
          "no matrix, or nothing to choose from"),
    Known(r"quantized_\w+ \| only MXNet raises", "quantized layers take ranges of any shape"),
    Known(r"_(slice|crop)_assign \| only MXNet raises", "values that broadcast are taken"),
    Known(r"count_sketch \| only MXNet raises", "MXNet has it for GPUs alone"),
    Known(r"SparseEmbedding \| only MXNet raises", "MXNet refuses the parameters that it declares"),
    Known(r"clip \| values", "a lower limit above the upper one",
          lambda case, _: float(case["params"].get("a_min") or 0) > float(
              case["params"].get("a_max") or 0)),
    Known(r"(BatchNorm\w*|batch_norm) \| values \| x#$", "a refused operator has changed nothing in MXNet"),
    Known(r"\.(zeros|ones|full|empty|concatenate|array|pad|diff|choice) \| error type",
          "another error for arguments of the wrong type"),
    Known(r"gpu_memory_info \| error type", "there is no GPU"),
    Known(r"\.nonzero \| error type", "no out="),
    Known(r"erf(inv)? \| values", "of integers, in double precision there", lambda case, _: _integers(case)),
    Known(r"\b(mean|moments) \| values", "MXNet divides what it adds to as well",
          lambda case, _: case.get("grad_req") == "add"),
    Known(r"moments \| dtype", "of integers", lambda case, _: _integers(case)),
    Known(r"flip \| only MXNet raises", "negative axes are taken"),
    Known(r"gather_nd \| error type", "IndexError for positions out of range"),
    Known(r"log_softmax \| values", "oneDNN's logarithm", lambda case, d: all(
        abs(a - b) < 1e-5 for a, b in zip(d[2], d[3], strict=False))),
    Known(r"(softmax|softmin) \| values \| .*(grad|bound)", "MXNet's gradient is of the rounded output",
          lambda case, _: "float16" in str(case) or "temperature" in case.get("params", {})),
    Known(r"(argsort|topk|sort) \| values", "the order of NaN and of equal numbers",
          lambda case, _: "special" in str(case)),
    Known(r"(elemwise_)?add \| values \| bound", "MXNet's sum of two gradients in place",
          lambda case, _: case.get("grad_req") == "add"),
    Known(r"_like \| (type|only mxjax)|(nan(sum|prod)|arccosh|rmspropalex_update) \| NaN|np.around \| values",
          "sparse arrays, NaN and infinities, tens of bytes"),
    Known(r"reshape \| only mxjax raises", "the deprecated target_shape is checked",
          lambda case, _: "target_shape" in case.get("params", {})),
    Known(r"np.array \| values \| .*grad", "gradients through casts to bool and integers"),
    Known(r"atleast_\dd \| ", "one array or a list of them, and errors of another type"),
    Known(r"only MXNet raises \| .*(Shape inconsistent|from.Size)", "an out= of another shape takes the result's",
          lambda case, _: "out" in case),
    Known(r"_multi_(mp_)?(adamw|lamb)_update \| (arguments|aux)", "MXNet counts too few inputs"),
    Known(r"amp_multicast \| (arguments|only MXNet raises)", "as many outputs as inputs"),
    Known(r"amp_multicast \| values", "MXNet's gradient does not add", lambda case, _: case.get("grad_req") == "add"),
    Known(r"_update \| values \| x#", "an out= that does not fit: the states have changed",
          lambda case, _: isinstance(case.get("out"), dict) and case["out"]["shape"] != case["inputs"][0]["shape"]),
    Known(r"group_adagrad_update", "rows that are not stored, weights of another shape"),
    Known(r"only MXNet raises \| .*(index = -?# must be in range|cannot be broadcasted|Not implmented|does not support "
          r"float|delay_alloc|unknown type for MKLDNN|failed in lapack|not implemented)",
          "computes what MXNet has no kernel for"),
    Known(r"(gemm2?|FullyConnected|mean|sum|dot\w*|Reshape|reshape) \| only MXNet raises \| Shape inconsistent",
          "an out= of another shape takes the result's", lambda case, _: "out" in case),
    Known(r"fill_element_0index|col2im \| only MXNet|Pooling_v1 \| only MXNet|RROIAlign \| only MXNet|"
          r"pdf_dirichlet \| only MXNet|image.crop \| only MXNet", "more shapes are taken"),
    Known(r"pdf_generalized_negative_binomial \| values \| .*(grad|bound)", "MXNet's digamma is an approximation"),
    Known(r"gelqf \| NaN", "of NaN"),
    Known(r"gammaln \| (values|infinities)", "MXNet computes digamma in float32"),
    Known(r"only MXNet raises \| Operator \* is non-differentiable",
          "every operator has derivatives of any order here"),
    Known(r"only MXNet raises \|.*(only support|not supported|[Uu]nsupported|not implemented|FP# gemm|Other DTypes|"
          r"could not execute a primitive|IsDefaultData|expected (u?int|float|bool)|Type inconsistent|"
          r"uniform type|mshadow|type_flag|type enum|dtype|Not enough argument to)",
          "computes where MXNet has no kernel for the dtype, the storage or the number of axes"),
    Known(r"only MXNet raises \|.*(Incompatible attr in node|could not create|MKLDNN doesn't|kWriteTo)",
          "mixed dtypes and all shapes are computed; an out= may be an input"),
    Known(r"only MXNet raises", "shapes that are not known yet are checked as soon as they are",
          lambda case, _: "unknown" in case),
    Known(r"only MXNet raises \| Invalid Parameter format", "True and False are numbers",
          lambda case, _: any(isinstance(v, bool) for v in case.get("params", {}).values())),
    Known(r"random.exponential \| .*got multiple values for argument", "MXNet's function of lam= cannot be called"),
    Known(r"random.(beta|power) \| values", "MXNet has no gradients of these parameters"),
    Known(r"random.shuffle \| values", "a refused operator has changed its array in MXNet",
          lambda case, _: case["record"]),
    Known(r"np.random.\w+ \| only mxjax raises .*do not fit size", "MXNet reads beyond the parameters"),
    Known(r"BatchNorm \| values \| .*grad", "oneDNN's gradient of a layer that uses its averages is that of another",
          lambda case, _: case["record"] and case.get("train") is False),
    Known(r"(Cast|cast|amp_cast|astype) \| values", "gradients of numbers that became bool or integers",
          lambda case, _: case.get("params", {}).get("dtype") in ("bool", "int32", "int64", "uint8", "int8")),
    Known(r"[Pp]ad \| only mxjax raises \| .*must be smaller than", "MXNet reads beyond the array"),
    Known(r"IdentityAttachKLSparseReg \| values", "MXNet changes the average in the backward pass"),
    Known(r"ROIPooling \| NaN", "MXNet's maximum passes over NaN"),
    Known(r"only MXNet raises \|.*(inferring shapes failed|Shape inconsistent, Provided = \*, inferred shape=\*$)",
          "empty and scalar arrays are allowed", lambda case, _: _empty(case)),
    Known(r"only MXNet raises \| xs.size", "a gradient that depends on nothing can be walked back from in sums"),
    Known(r"only mxjax raises \| backward: no array in the graph requires a gradient",
          "the zero slope of a step is a constant"),
    Known(r"\| type \| g\[#\]", "autograd.grad of mx.np's arrays gives mx.np's arrays"),
    Known(r"\| values \| (.*grad|bound\[#\]\[x#\])", "gradients of integer arrays (docs/design/0006)",
          lambda case, d: _integers(case)),
    Known(r"\| NaN places|\| values", "a float that an integer cannot hold has no value in C",
          lambda case, d: '"special"' in str(case).replace("'", '"') and all(
              isinstance(v, int) for side in d[2:] if isinstance(side, list) for v in side)),
    Known(r"\| values \| (x#|y)$", "an out= that is the input: MXNet reads what it has overwritten",
          lambda case, d: isinstance(case.get("out"), int)),
    Known(r"np.(zeros|ones)_like \| values \| (o|x#)$", "out= is filled; MXNet leaves it as it is"),
    Known(r"np\.(nan\w+|cov|corrcoef|histogram\w*|interp) \| (dtype|error type)",
          "NumPy's own function: its version decides"),
    Known(r"([lL]ayer_?|Group|Instance)[nN]orm \| values \| \w+(#|\.grad)+$", "differences of large numbers in float32",
          lambda case, d: all(abs(a - b) < 1e-5 for a, b in zip(d[2], d[3], strict=False))),
    Known(r"np arrays \| (only MXNet raises|error type) \| mxnet.numpy.ndarray object has no attribute",
          "mx.np's arrays have the methods of mx.nd's"),
    Known(r"arrays \| only MXNet raises \| (\* < \*|step|param.start|begin <= end)", "empty selections are allowed"),
    Known(r"np arrays \| only mxjax raises \| index # is out of bounds", "index arrays out of range are refused"),
    Known(r"np arrays \| error type \| (ishape|index # is out)", "NumPy's ValueError for what does not fit"),
    Known(r"Embedding \| only MXNet raises \| req", "the gradient of positions is zero"),
    Known(r"symbols \| value \| found", "shapes are found that MXNet leaves open (docs/design/0004)"),
    Known(r"already in a computational graph", "code that changes arrays under record, in MXNet's own losses"),
    Known(r"AvgPool\dD \| (only mxjax raises \| Pooling: pad|only MXNet raises \| could not create)",
          "windows of padding alone are refused"),
    Known(r"(Output|Softmax|CTCLoss|Sequence\w+) \| values \| bound", "MXNet leaves the gradient of labels as it was",
          lambda case, d: d[1].endswith("[x1]")),
    Known(r"RegressionOutput \| values \|", "MXNet scales what it adds the gradient to",
          lambda case, d: case.get("grad_req") == "add"),
    Known(r"\| values \|.*(grad|bound)", "MXNet's gradient overwrites what it should add to",
          lambda case, d: case.get("grad_req") == "add" and (_overwritten(case, d, 0) or _overwritten(case, d, 1))),
    Known(r"arc(sin|cos)h \| values", "MXNet's second derivative has the wrong sign",
          lambda case, d: case["record"] == 2),
    Known(r"np\.(nan\w+|count_nonzero|\w+1d|poly\w+) \| (value|type)", "NumPy's own function: its version decides"),
    Known(r"np\.h[am]n+ing|np\.blackman", "values next to a whole number, in integers and float16"),
    Known(r"sym.* \| (value|items) \| found", "shapes are found that MXNet leaves open (docs/design/0004)"),
    Known(r"sym.* \| only mxjax raises \| operator .*: parameter .* must be", "limits of parameters are told at once"),
    Known(r"sym.* \| only mxjax raises \| Error in (operator|variable)",
          "shapes that contradict each other are told at once", lambda case, d: "unknown" in case),
    Known(r"sym\._internal\._(plus|Plus|add) \|", "MXNet's sum of two gradients in place",
          lambda case, d: case.get("grad_req") == "add"),
    Known(r"(np|npx)\..* \| error type \| .*(p has to be|ishape|p_shape)", "MXNetError for MXNet's ValueError"),
    Known(r"(np|npx)\..*(raises|error type)", "scalars have an axis in MXNet", lambda case, d: any(
        not i["shape"] for i in case.get("inputs", ()))),
    Known(r"optimizer.Signum \| only MXNet raises", "MXNet gives SignSGD a parameter that it lacks"),
    Known(r"(Max|Avg)Pool\dD \| (NaN|only mxjax)", "windows of padding alone, or of nothing"),
    Known(r"arrays \| grad there", "attach_grad('null') has a gradient until it is recorded"),
    Known(r"stack: (All input|Cannot)", "arrays of different shapes"),
    Known(r"symbols \| values \| bound", "gradients through casts to integers in graphs (docs/differences.md)",
          lambda case, _: "'Cast'" in str(case) or "sym.Cast" in str(case)),
    Known(r"arrays \| (NaN places|infinities)", "a refused update has changed the array in MXNet",
          lambda case, _: "record" in str(case) and "'update'" in str(case)),
    Known(r"np arrays \| shape", "None beside an index array: NumPy's order of axes",
          lambda case, _: "None" in str(case)),
    Known(r"np arrays \| only mxjax raises \| .*(axis=|cannot assign)",
          "scalars have an axis, empty selections any shape"),
    Known(r"clip \| values", "limits beyond the dtype", lambda case, _: _integers(case)),
    Known(r"(np|npx)\..*(NaN places|values)", "arrays of no elements", lambda case, d: _empty(case)),
    Known(r"(deg2rad|rad2deg) \| only MXNet raises", "MXNet's names are missing in its own module"),
    Known(r"SoftmaxActivation \| values", "MXNet's gradient is along another axis than the softmax"),
    Known(r"image\.(random_)?(flip_\w+|hue) \| (values|NaN)",
          "MXNet leaves the column or row in the middle as it was in memory"),
    Known(r"Deconvolution \| NaN", "NaN and infinities between the inserted zeros"),
    Known(r"BatchNorm\w* \| NaN|slogdet \| inf|RegressionOutput \| NaN|_sample_multinomial \| NaN",
          "of NaN and infinities, and logarithms of 0"),
    Known(r"image.resize \| only mxjax raises", "the host's resize has no second derivative"),
    Known(r"Sequence(Last|Mask|Reverse) \| (values|NaN)", "a length of 0 or beyond the data reads other memory"),
    Known(r"unravel_index \| (shape|only mxjax)", "MXNet takes the first positions alone"),
    Known(r"Norm \| values \| (bound|o$)", "differences of large numbers; a refused operator has changed out="),
    Known(r"ravel_multi_index \| values", "positions outside of the shape"),
    Known(r"linalg\.?\w* \| values", "MXNet does not add to a gradient, or reads what it has overwritten",
          lambda case, d: case.get("grad_req") == "add" or isinstance(case.get("out"), int)),
    Known(r"\| values", "a quotient by 0 has no value in integers",
          lambda case, d: "div" in case.get("fn", "").lower() and _integers(case)),
    Known(r"\b(nan)?prod \| NaN places", "the gradient of a product with zeros is the mathematical one"),
    Known(r"error type \| \* object has no attribute", "MXNet fails to tell the error"),
    Known(r"error type \| (Argument \w+|Positional arguments) must (have|be)",
          "TypeError for what is no array (MXNet: AssertionError)"),
    Known(r"gluon.rnn.* \| values", "a state that is an output too: MXNet takes the last of its two head gradients"),
    Known(r"symbols \| values", "MXNet's loss overwrites the gradient that it should add to",
          lambda case, d: '"add"' in str(case).replace("'", '"') and "SoftmaxOutput" in str(case)),
    Known(r"norm \| (values|dtype)|arrays \| values", "norms of integers: MXNet's are none",
          lambda case, d: "norm" in str(case) and "int" in str(case)),
    Known(r"AvgPool\dD \| values \| x.grad", "oneDNN's gradient of averages over clipped windows divides by whole ones",
          lambda case, d: "ceil_mode" in str(case)),
    Known(r"arrays \| values \| [abv]#?(\.grad)?$", "a refused assignment has changed the array in MXNet",
          lambda case, d: "record" in str(case) and ("'set'" in str(case) or "'update'" in str(case))),
    Known(r"arrays \| values \| .*grad", "gradients of integer arrays (docs/design/0006)",
          lambda case, d: "int" in str(case)),
    Known(r"symbols \| values", "an output that is there twice: MXNet takes the last of its two head gradients",
          lambda case, d: "sym.Group" in str(case)),
    Known(r"symbols \| values \| bound.*label", "MXNet leaves the gradient of labels as it was"),
    Known(r"arrays \| (error type|only MXNet raises) \| .*([Rr]ange|has no attribute|remapped shapes|out of bounds|"
          r"target shape must|step|\* < \*)", "another error for what two rules forbid; empty selections are allowed"),
    Known(r"Conv\dDTranspose \| only MXNet raises", "groups of channels that are not known yet, and float64 in 3D"),
    Known(r"symbols \| only MXNet raises \| (args|Operator|Infer)", "groups are taken apart as inputs"),
    Known(r"SDMLLoss \| values", "differences of large numbers in float32"),
]


def _overwritten(case, d, before):
    """Whether our gradient is the sum of MXNet's, once for each pass, and of what was there before."""
    times = case.get("times", 1 if case["fn"].startswith("sym") else 2)
    return all(abs(before + times * a - b) <= 1e-4 * abs(b) + 1e-6 for a, b in zip(d[2], d[3], strict=False))


def _integers(case):
    return any(not i["dtype"].startswith("float") for i in case.get("inputs", ()) if "dtype" in i)


def _empty(case):
    return not case.get("inputs") or any(0 in i["shape"] or not i["shape"] for i in case["inputs"])


def reason(signature: str, case: dict, difference: tuple) -> str | None:
    """Why a difference is accepted, or None."""
    return next((k.reason for k in KNOWN if k.covers(signature, case, difference)), None)
