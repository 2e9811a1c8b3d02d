"""More arguments that belong together: linear algebra, images, boxes, attention, updates of many weights."""


def _tensor(shape, **more):
    return dict({"shape": list(shape)}, **more)


def _einsum(d):
    form, shapes = d.of([
        ("ij,jk->ik", [[2, 3], [3, 2]]), ("ij,jk", [[2, 3], [3, 2]]), ("ii", [[2, 2]]), ("ii->i", [[3, 3]]),
        ("ij->ji", [[2, 3]]), ("ij->", [[2, 3]]), ("i,i", [[3], [3]]), ("i,j->ij", [[2], [3]]),
        ("...j,j", [[2, 3], [3]]), ("bij,bjk->bik", [[2, 2, 3], [2, 3, 1]]),
        ("ij,jk,kl->il", [[2, 3], [3, 2], [2, 2]]), ("ijk,jil->kl", [[2, 3, 2], [3, 2, 1]]),
        ("ij,kj->ik", [[2, 3], [1, 3]]), ("ij,jk->ik", [[2, 3], [2, 3]]), ("a...,a...->...", [[2, 3], [2, 3]])])
    return [_tensor(s) for s in shapes], {"*": [form], **({"optimize": d.once_in(2)} if d.once_in(3) else {})}


def _matmul(d):
    return [_tensor(s) for s in d.of([([2, 3], [3, 2]), ([3], [3]), ([3], [3, 2]), ([2, 3], [3]), ([2, 2, 3], [3, 1]),
                                      ([2, 1, 3], [1, 3, 2]), ([1, 2, 3], [2, 3, 2]), ([2, 0], [0, 3]), ([], [3]),
                                      ([2, 3], [2, 3])])], {}


def _interp(d):
    return [_tensor(d.of([[3], [2, 2], []])), {"shape": [4], "data": [-2.0, -0.5, 1.0, 2.5]}, _tensor([4])], \
        d.of([{}, {"left": 0.5}, {"right": -1.0}])


def _solve(d):
    n, batch = d.of([1, 2, 3]), d.of([[], [], [2]])
    return [_tensor([*batch, n, n], values="normal"), _tensor(d.of([[*batch, n, 2], [*batch, n, 1], [n]]))], {}


def _matrix(*shapes, **more):
    def make(d):
        return [_tensor(d.of(shapes), values=d.of(["normal", "eighths"]), **more)], {}
    return make


_SQUARE = _matrix([2, 2], [3, 3], [2, 2, 2], [1, 1], [0, 0], [2, 3])


def _symmetric(d):
    data = d.of([[[2.0, 0.5], [0.5, 1.0]], [[3.0]], [[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]]])
    return [{"shape": [len(data)] * 2, "data": data}], {}


def _tensorinv(d):
    return [_tensor(d.of([[2, 2, 2, 2], [4, 2, 2], [2, 2]]), values="normal")], {"ind": d.of([1, 2])}


def _tensorsolve(d):
    return [_tensor([2, 2, 4], values="normal"), _tensor([2, 2])], {}


def _cross(d):
    return [_tensor(s) for s in d.of([([3], [3]), ([2, 3], [2, 3]), ([2], [3]), ([2, 2], [2, 2]), ([2, 3], [3])])], {}


def _image(make, channels=(1, 3)):
    def recipe(d):
        shape = [d.int(2, 5), d.int(2, 5), d.of(channels)]
        return [_tensor([2, *shape] if d.once_in(4) else shape, values="positive",
                        dtype=d.of(["uint8", "float32", "float32"]))], make(d)
    return recipe


def _normalize(d):
    return [_tensor(d.of([[3, 2, 2], [1, 2, 2], [2, 3, 2, 2]]))], \
        {"mean": {"tuple": d.of([[0.5], [0.1, 0.2, 0.3]])}, "std": {"tuple": d.of([[0.5], [1.0, 2.0, 0.5]])}}


def _prior(d):
    return [_tensor([1, 2, d.int(1, 3), d.int(1, 3)])], {
        "sizes": {"tuple": d.of([[0.5], [0.5, 0.25]])}, "ratios": {"tuple": d.of([[1.0], [1.0, 2.0, 0.5]])},
        "clip": d.once_in(2), **d.of([{}, {"steps": {"tuple": [0.5, 0.25]}}, {"offsets": {"tuple": [0.25, 0.75]}}])}


_ANCHORS = [[[0.1, 0.1, 0.5, 0.5], [0.4, 0.4, 0.9, 0.9], [0.0, 0.5, 0.5, 1.0]]]


def _target(d):
    labels = d.of([[[[0, 0.1, 0.1, 0.4, 0.5], [1, 0.5, 0.5, 0.9, 0.9]]], [[[1, 0.4, 0.4, 0.8, 0.9], [-1] * 5]],
                   [[[-1] * 5, [-1] * 5]]])
    return [{"shape": [1, 3, 4], "data": _ANCHORS}, {"shape": [1, 2, 5], "data": labels},
            _tensor([1, 3, 3], values="unit")], \
        d.of([{}, {"overlap_threshold": 0.3}, {"negative_mining_ratio": 2.0, "negative_mining_thresh": 0.4},
              {"variances": {"tuple": [0.2, 0.2, 0.4, 0.4]}}])


def _detection(d):
    chances = [[[0.1, 0.3, 0.6], [0.7, 0.4, 0.1], [0.2, 0.3, 0.3]]]
    return [{"shape": [1, 3, 3], "data": chances}, _tensor([1, 12], values="unit"),
            {"shape": [1, 3, 4], "data": _ANCHORS}], \
        d.of([{}, {"clip": False}, {"threshold": 0.35}, {"nms_threshold": 0.1, "force_suppress": True},
              {"nms_topk": 1}, {"background_id": 1}])


def _attention(inputs, heads):
    return lambda d: ([_tensor(s) for s in inputs], {"heads": heads})


def _many(states, mixed=False, names=("lrs", "wds"), count="num_weights", more=None):
    """weight, gradient, states of each of one or two weights."""
    def make(d):
        number = d.int(1, 2)
        params = {n: {"tuple": [d.of([0.1, 0.5]) for _ in range(number)]} for n in names}
        params[count] = number
        if d.once_in(2):
            params.update(rescale_grad=0.5, clip_gradient=d.of([0.5, -1.0]))
        params.update(more(number) if more else {"momentum": 0.9} if states else {})
        low = "float16" if mixed else "float32"
        inputs = []
        for _ in range(number):
            inputs += [_tensor([2, 3], dtype=low), _tensor([2, 3], dtype=low)]
            inputs += [_tensor([2, 3], dtype="float32", values="positive") for _ in range(states + mixed)]
        return inputs, params
    return make


def _lamb(number):
    return {"step_count": {"tuple": [1] * number}, "beta1": 0.9, "clip_gradient": -1.0}


def _rows(*shapes, **params):
    return lambda d: ([_tensor(s) for s in shapes], dict(params))


RECIPES = {
    "einsum": _einsum, "matmul": _matmul, "interp": _interp, "solve": _solve, "lstsq": _solve, "eig": _SQUARE,
    "eigvals": _SQUARE, "eigh": _symmetric, "eigvalsh": _symmetric, "cholesky": _symmetric, "inv": _SQUARE,
    "pinv": _matrix([2, 2], [2, 3], [3, 2], [2, 2, 3]), "svd": _matrix([2, 3], [2, 2], [2, 2, 3]), "det": _SQUARE,
    "slogdet": _SQUARE, "tensorinv": _tensorinv, "tensorsolve": _tensorsolve, "cross": _cross,
    "_linalg_syevd": _symmetric, "_linalg_gelqf": _matrix([2, 3], [2, 2]), "_image_normalize": _normalize,
    "_image_resize": _image(lambda d: {"size": d.of([3, {"tuple": [4, 2]}]), "interp": d.of([0, 1, 2]),
                                       "keep_ratio": d.once_in(4)}),
    "_image_crop": _image(lambda d: {"x": d.int(0, 1), "y": d.int(0, 1), "width": d.int(1, 3), "height": d.int(1, 3)}),
    "_image_to_tensor": _image(lambda d: {}), "_image_flip_left_right": _image(lambda d: {}),
    "_image_flip_top_bottom": _image(lambda d: {}), "_image_random_flip_left_right": _image(lambda d: {}),
    "_image_random_flip_top_bottom": _image(lambda d: {}),
    "_image_adjust_lighting": _image(lambda d: {"alpha": {"tuple": [0.5, 0.1, 1.0]}}, (3,)),
    "_image_random_lighting": _image(lambda d: {"alpha_std": 0.1}, (3,)),
    **{f"_image_random_{what}": _image(lambda d: {"min_factor": 0.5, "max_factor": 1.5})
       for what in ("brightness", "contrast", "saturation", "hue")},
    "_contrib_MultiBoxPrior": _prior, "_contrib_MultiBoxTarget": _target, "_contrib_MultiBoxDetection": _detection,
    "_contrib_interleaved_matmul_selfatt_qk": _attention([[3, 2, 12]], 2),
    "_contrib_interleaved_matmul_selfatt_valatt": _attention([[3, 2, 12], [4, 3, 3]], 2),
    "_contrib_interleaved_matmul_encdec_qk": _attention([[2, 2, 4], [3, 2, 8]], 2),
    "_contrib_interleaved_matmul_encdec_valatt": _attention([[3, 2, 8], [4, 2, 3]], 2),
    "multi_sgd_update": _many(0), "multi_sgd_mom_update": _many(1), "multi_mp_sgd_update": _many(0, True),
    "multi_mp_sgd_mom_update": _many(1, True),
    "_multi_lamb_update": _many(2, names=("learning_rates", "wds"), count="num_tensors", more=_lamb),
    "_multi_mp_lamb_update": _many(2, True, names=("learning_rates", "wds"), count="num_tensors", more=_lamb),
    "multi_sum_sq": lambda d: ([_tensor([2, 3]), _tensor([3])], {"num_arrays": 2}),
    "amp_multicast": lambda d: ([_tensor([2], dtype="float16"), _tensor([2])], {"num_outputs": 2}),
    "lamb_update_phase1": lambda d: ([_tensor([2, 3]) for _ in range(3)] + [_tensor([2, 3], values="positive")],
                                     {"t": d.int(1, 3), "wd": 0.1, "bias_correction": d.once_in(2)}),
    "lamb_update_phase2": lambda d: ([_tensor([2, 3]), _tensor([2, 3]), _tensor([1], values="positive"),
                                      _tensor([1], values="positive")], {"lr": 0.1}),
    "khatri_rao": _rows([2, 3], [1, 3]), "_contrib_quadratic": _rows([2, 3], a=2.0, b=0.5, c=1.0),
    "_contrib_index_array": _rows([2, 3]), "moments": lambda d: ([_tensor([2, 3])], {
        "axes": {"tuple": d.of([[0], [1], [0, 1]])}, "keepdims": d.once_in(2)}),
}
