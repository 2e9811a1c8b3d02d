"""The operators that NDArray and Symbol also have as methods: method name -> operator name; and old names of others."""

import operator

_SAME = """abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes
broadcast_like broadcast_to cbrt ceil clip cos cosh degrees depth_to_space diag exp expand_dims expm1 fix flatten
flip floor log log10 log1p log2 log_sigmoid log_softmax max mean min mish nanprod nansum norm one_hot ones_like pad
pick prod radians rcbrt reciprocal relu repeat reshape reshape_like rint round rsqrt shape_array sigmoid sign sin
sinh size_array slice slice_axis slice_like softmax softmin sort space_to_depth split sqrt square squeeze sum
swapaxes take tan tanh tile topk transpose trunc zeros_like""".split()

METHODS = {name: name for name in _SAME}

PYTHON2 = {  # names that some scripts call
    "__div__": lambda self, other: operator.truediv(self, other),
    "__rdiv__": lambda self, other: operator.truediv(other, self),
    "__idiv__": lambda self, other: operator.itruediv(self, other),
    "__nonzero__": lambda self: bool(self),
}
