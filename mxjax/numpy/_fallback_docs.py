"""Docstrings of the functions that NumPy computes: purpose, arguments, result, errors, example.

In a text of `_TEXTS`, lines with a colon describe arguments. `->` marks the result, `!` an error, `>>>` the example.
"""

from __future__ import annotations

__all__ = ["document"]

_HOST = "{} computes the result on the host: ndarrays are copied there and back. There is no gradient."
_RECORDING = "ValueError: autograd is recording the call."
_OPTIONS = "NumPy's ufunc options; only their defaults are supported"
_OUT = "out: ndarray to write to"
_OTHERS = f"where, casting, order, dtype, subok, signature: {_OPTIONS}"
_UFUNC, _UFUNC_OF_TWO = f"{_OUT}\n{_OTHERS}", f"out: a pair of ndarrays to write to\n{_OTHERS}"
_FINANCIAL = ("args, kwargs: arguments of the package's function\n-> A number or an ndarray.\n"
              "! MXNetError: the package is not installed.")

_TEXTS = {
    # ------------------------------------------------------------ comparisons
    "allclose": """Returns whether all elements of two arrays are equal within a tolerance: |a - b| ≤ atol + rtol · |b|.
a, b: ndarrays or numbers that broadcast
rtol: tolerance relative to b
atol: absolute tolerance
equal_nan: whether to treat NaN as equal to NaN
-> A bool.
>>> mx.np.allclose(mx.np.array([1, 2]), mx.np.array([1, 2.000001]))
True""",
    "isclose": """Tests which elements are equal within a tolerance: |a - b| ≤ atol + rtol · |b|.
a, b: ndarrays or numbers that broadcast
rtol: tolerance relative to b
atol: absolute tolerance
equal_nan: whether to treat NaN as equal to NaN
-> An ndarray of booleans.
>>> mx.np.isclose(mx.np.array([1, 2]), mx.np.array([1, 2.5]))
array([ True, False])""",
    "array_equal": """Returns whether two arrays have the same shape and elements.
a1, a2: ndarrays
equal_nan: whether to treat NaN as equal to NaN
-> A bool.
>>> mx.np.array_equal(mx.np.array([1, 2]), mx.np.array([1, 2]))
True""",
    "array_equiv": """Returns whether two arrays have the same elements after broadcasting.
a1, a2: ndarrays
-> A bool.
>>> mx.np.array_equiv(mx.np.array([1, 2]), mx.np.array([[1, 2], [1, 2]]))
True""",
    "alltrue": """Tests whether all elements along axes are nonzero: the old name of `all`.
args: the ndarray, then the axis or a tuple of axes; None: all
kwargs: keyword arguments of `numpy.all`, such as `axis` and `keepdims`
-> An ndarray of booleans, or a bool.
>>> mx.np.alltrue(mx.np.array([[1, 0], [1, 1]]), axis=1)
array([False,  True])""",
    "signbit": f"""Tests whether the sign bit is set, also for -0.0, element by element.
x: ndarray or number
{_UFUNC}
-> An ndarray of booleans.
>>> mx.np.signbit(mx.np.array([-1, 0, 2]))
array([ True, False, False])""",
    # ------------------------------------------------------------ element by element
    "divmod": f"""Returns the quotient, rounded down, and the remainder, element by element.
x1, x2: ndarrays or numbers that broadcast
{_UFUNC_OF_TWO}
-> A pair of ndarrays.
>>> quotient, rest = mx.np.divmod(mx.np.array([7, -7]), 3)
>>> quotient
array([ 2., -3.])
>>> rest
array([1., 2.])""",
    "float_power": f"""Raises x1 to the power of x2 in float64, element by element.
x1, x2: ndarrays or numbers that broadcast
{_UFUNC}
-> An ndarray of float64.
>>> mx.np.float_power(mx.np.array([1, 2, 4]), 0.5).round(2)
array([1.  , 1.41, 2.  ], dtype=float64)""",
    "frexp": f"""Decomposes x into mantissa · 2 ** exponent, element by element.
x: ndarray or number
{_UFUNC_OF_TWO}
-> A pair of ndarrays: mantissas in [0.5, 1) with the sign of x, and exponents (int32).
>>> mantissa, exponent = mx.np.frexp(mx.np.array([1, 6]))
>>> mantissa
array([0.5 , 0.75])
>>> exponent
array([1, 3], dtype=int32)""",
    "heaviside": f"""The step function: 0 for negative x1, 1 for positive x1, x2 for zero, element by element.
x1: ndarray or number
x2: ndarray or number that broadcasts with x1: the value where x1 is 0
{_UFUNC}
-> An ndarray.
>>> mx.np.heaviside(mx.np.array([-2, 0, 3]), 0.5)
array([0. , 0.5, 1. ])""",
    "modf": f"""Returns the fractional and the integer part, both with the sign of x, element by element.
x: ndarray or number
{_UFUNC_OF_TWO}
-> A pair of ndarrays.
>>> fraction, whole = mx.np.modf(mx.np.array([1.5, -2.25]))
>>> fraction
array([ 0.5 , -0.25])
>>> whole
array([ 1., -2.])""",
    "positive": f"""Returns a copy: +x, element by element.
x: ndarray or number
{_UFUNC}
-> An ndarray.
>>> mx.np.positive(mx.np.array([-1, 2]))
array([-1.,  2.])""",
    "spacing": f"""The distance from x to the next number of its dtype, element by element.
x: ndarray or number
{_UFUNC}
-> An ndarray.
>>> mx.np.spacing(mx.np.array([1], dtype="float16"))
array([0.000977], dtype=float16)""",
    "i0": """The modified Bessel function of the first kind and order 0, element by element.
x: ndarray or number
-> An ndarray.
>>> mx.np.i0(mx.np.array([0, 1])).round(2)
array([1.  , 1.27])""",
    "real": """Returns the real part, element by element: the values themselves, since ndarrays are never complex.
val: ndarray or number
-> An ndarray.
>>> mx.np.real(mx.np.array([1, 2]))
array([1., 2.])""",
    "unwrap": """Removes jumps from angles: adds a multiple of the period if neighbours differ by more than half of it.
p: ndarray of angles
discont: smallest difference that counts as a jump; default: half the period
axis: axis along which to compare neighbours
period: period of the values; default: 2π
-> An ndarray.
>>> mx.np.unwrap(mx.np.array([0, 3, 1]), period=4)
array([ 0., -1., -3.])""",
    # ------------------------------------------------------------ elements and positions
    "argpartition": """Returns the indices that partition an array, as `partition` does.
a: ndarray
kth: int or sequence of ints: indices of the elements to put in their sorted positions
axis: axis along which to operate; None: use the flattened array
kind: "introselect"
order: only None is supported
-> An ndarray of int64.
! ValueError: kth is out of range.
>>> a = mx.np.array([3, 1, 2])
>>> mx.np.take(a, mx.np.argpartition(a, 0)[:1])
array([1.])""",
    "argwhere": """Returns the indices of the nonzero elements, one row per element.
a: ndarray
-> An int64 ndarray of shape (count, dimensions).
>>> mx.np.argwhere(mx.np.array([[0, 7], [8, 0]]))
array([[0, 1],
       [1, 0]], dtype=int64)""",
    "choose": """Picks each element from one of several arrays: at index i, from array `a[i]`.
a: ndarray of integers: indices of the arrays
choices: sequence of ndarrays that broadcast with a, or an ndarray that stacks them along its first axis
out: ndarray to write to
mode: handling of indices out of range: "raise" an error, "clip" them, or "wrap" them around
-> An ndarray.
! ValueError: an index is out of range, and mode is "raise".
>>> mx.np.choose(mx.np.array([0, 1], dtype="int64"), [mx.np.array([1, 2]), mx.np.array([10, 20])])
array([ 1., 20.])""",
    "compress": """Returns the slices along an axis for which a condition is true.
condition: vector of booleans
a: ndarray
axis: axis along which to operate; None: use the flattened array
out: ndarray to write to
-> An ndarray.
>>> mx.np.compress(mx.np.array([0, 1, 1]), mx.np.array([5, 6, 7]))
array([6., 7.])""",
    "count_nonzero": """Counts the nonzero elements along axes.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
keepdims: whether to keep the reduced axes with size 1
-> An int, or an ndarray of int64.
>>> mx.np.count_nonzero(mx.np.array([[1, 0], [2, 3]]), axis=1)
array([1, 2], dtype=int64)""",
    "extract": """Returns the elements for which a condition is true.
condition: ndarray of booleans with the shape of arr
arr: ndarray
-> A vector.
>>> a = mx.np.array([[1, 2], [3, 4]])
>>> mx.np.extract(a > 2, a)
array([3., 4.])""",
    "flatnonzero": """Returns the indices of the nonzero elements in the flattened array.
a: ndarray
-> A vector of int64.
>>> mx.np.flatnonzero(mx.np.array([[0, 7], [8, 0]]))
array([1, 2], dtype=int64)""",
    "ix_": """Returns index arrays that together select a grid of rows, columns, and so on.
args: vectors of integers or booleans
-> A tuple of int64 ndarrays, each along a different axis.
>>> a = mx.np.array([[1, 2, 3], [4, 5, 6]])
>>> rows, columns = mx.np.ix_([0, 1], [0, 2])
>>> a[rows, columns]
array([[1., 3.],
       [4., 6.]])""",
    "lexsort": """Returns the indices that sort by several keys.
keys: sequence of ndarrays of the same shape, or an ndarray that stacks them; the last key is the primary one
axis: axis along which to operate
-> An ndarray of int64.
>>> mx.np.lexsort((mx.np.array([2, 1, 0]), mx.np.array([5, 5, 4])))
array([2, 1, 0], dtype=int64)""",
    "msort": """Sorts the values along the first axis.
a: ndarray
-> A sorted copy.
>>> mx.np.msort(mx.np.array([[3, 1], [2, 4]]))
array([[2., 1.],
       [3., 4.]])""",
    "nanargmax": """Returns the indices of the maxima along an axis, ignoring NaN.
a: ndarray
axis: axis along which to operate; None: use the flattened array
out: ndarray to write to
keepdims: whether to keep the axis with size 1
-> Indices (int64).
! ValueError: a slice contains only NaN.
>>> mx.np.nanargmax(mx.np.array([[1, np.nan, 3], [np.nan, 5, 2]]), axis=1)
array([2, 1], dtype=int64)""",
    "nanargmin": """Returns the indices of the minima along an axis, ignoring NaN.
a: ndarray
axis: axis along which to operate; None: use the flattened array
out: ndarray to write to
keepdims: whether to keep the axis with size 1
-> Indices (int64).
! ValueError: a slice contains only NaN.
>>> mx.np.nanargmin(mx.np.array([[1, np.nan, 3], [np.nan, 5, 2]]), axis=1)
array([0, 2], dtype=int64)""",
    "partition": """Puts the k-th elements in their sorted positions, with no larger elements before them.
a: ndarray
kth: int or sequence of ints: indices of the elements to put in their sorted positions
axis: axis along which to operate; None: use the flattened array
kind: "introselect"
order: only None is supported
-> A copy.
! ValueError: kth is out of range.
>>> mx.np.partition(mx.np.array([3, 1, 2]), 1)
array([1., 2., 3.])""",
    "searchsorted": """Returns the indices at which numbers must be inserted to keep a vector sorted.
a: vector; must be sorted unless sorter is given
v: ndarray or number
side: "left": before equal elements; "right": after them
sorter: indices that sort a
-> Indices (int64).
>>> mx.np.searchsorted(mx.np.array([1, 3, 5]), mx.np.array([0, 3, 6]))
array([0, 1, 3], dtype=int64)""",
    "select": """Picks each element from the first array whose condition is true.
condlist: list of ndarrays of booleans
choicelist: list of as many ndarrays or numbers
default: value if no condition is true
-> An ndarray.
! ValueError: the lists have different lengths.
>>> a = mx.np.array([1, 2, 3])
>>> mx.np.select([a < 2, a > 2], [a, a * 10], default=0)
array([ 1.,  0., 30.])""",
    "take_along_axis": """Takes elements along an axis by an index array, such as the result of `argsort`.
arr: ndarray
indices: ndarray of integers that broadcasts with arr along the other axes
axis: axis along which to operate; None: use the flattened array
-> An ndarray.
! IndexError: an index is out of range.
>>> a = mx.np.array([[3, 1], [2, 4]])
>>> mx.np.take_along_axis(a, mx.np.argsort(a, axis=1), axis=1)
array([[1., 3.],
       [2., 4.]])""",
    "tril_indices_from": """Returns the indices of the elements on and below the k-th diagonal of a matrix.
arr: ndarray of shape (m, n)
k: diagonal: 0 for the main diagonal, positive above it, negative below it
-> A pair of int64 vectors: rows and columns.
! ValueError: arr is not a matrix.
>>> rows, columns = mx.np.tril_indices_from(mx.np.zeros((2, 2)))
>>> rows
array([0, 1, 1], dtype=int64)
>>> columns
array([0, 0, 1], dtype=int64)""",
    "triu_indices_from": """Returns the indices of the elements on and above the k-th diagonal of a matrix.
arr: ndarray of shape (m, n)
k: diagonal: 0 for the main diagonal, positive above it, negative below it
-> A pair of int64 vectors: rows and columns.
! ValueError: arr is not a matrix.
>>> rows, columns = mx.np.triu_indices_from(mx.np.zeros((2, 2)))
>>> rows
array([0, 0, 1], dtype=int64)
>>> columns
array([0, 1, 1], dtype=int64)""",
    "trim_zeros": """Removes the zeros at the ends of a vector.
filt: vector
trim: "f" for the front, "b" for the back, "fb" for both
axis: axes to trim, or None
-> A vector.
>>> mx.np.trim_zeros(mx.np.array([0, 1, 0, 2, 0]))
array([1., 0., 2.])""",
    # ------------------------------------------------------------ sets
    "in1d": """Tests which elements of an array, flattened, are in another array.
ar1: ndarray
ar2: ndarray to search
assume_unique: whether the elements of each array are known to be unique
invert: whether to test for absence instead
-> A vector of booleans.
>>> mx.np.in1d(mx.np.array([1, 2, 3]), mx.np.array([3, 1]))
array([ True, False,  True])""",
    "isin": """Tests which elements are in another array.
element: ndarray or number
test_elements: ndarray to search
assume_unique: whether the elements of each array are known to be unique
invert: whether to test for absence instead
kind: NumPy's search algorithm: None, "sort" or "table"
-> An ndarray of booleans with the shape of element.
>>> mx.np.isin(mx.np.array([[1, 2], [3, 4]]), mx.np.array([4, 1]))
array([[ True, False],
       [False,  True]])""",
    "intersect1d": """Returns the sorted unique elements that are in both arrays.
ar1, ar2: ndarrays
assume_unique: whether the elements of each array are known to be unique
return_indices: whether to return the indices of their first occurrences in both arrays as well
-> A vector; with return_indices, a tuple of three.
>>> mx.np.intersect1d(mx.np.array([3, 1, 2]), mx.np.array([2, 3, 4]))
array([2., 3.])""",
    "setdiff1d": """Returns the sorted unique elements of the first array that are not in the second.
ar1, ar2: ndarrays
assume_unique: whether the elements of each array are known to be unique
-> A vector.
>>> mx.np.setdiff1d(mx.np.array([3, 1, 2]), mx.np.array([2]))
array([1., 3.])""",
    "setxor1d": """Returns the sorted unique elements that are in exactly one of two arrays.
ar1, ar2: ndarrays
assume_unique: whether the elements of each array are known to be unique
-> A vector.
>>> mx.np.setxor1d(mx.np.array([1, 2]), mx.np.array([2, 3]))
array([1., 3.])""",
    "union1d": """Returns the sorted unique elements of two arrays.
ar1, ar2: ndarrays
-> A vector.
>>> mx.np.union1d(mx.np.array([3, 1]), mx.np.array([2, 3]))
array([1., 2., 3.])""",
    # ------------------------------------------------------------ statistics
    "corrcoef": """Computes the correlation coefficients of variables.
x: vector or matrix, one row per variable
y: further variables
rowvar: whether rows, instead of columns, are variables
bias, ddof: these have no effect
dtype: dtype of the result
-> A square matrix.
>>> mx.np.corrcoef(mx.np.array([[1, 2, 3], [3, 2, 1]])).round(2)
array([[ 1., -1.],
       [-1.,  1.]], dtype=float64)""",
    "cov": """Estimates the covariance matrix of variables.
m: vector or matrix, one row per variable
y: further variables
rowvar: whether rows, instead of columns, are variables
bias: whether to divide by the number of observations N; otherwise by N - 1
ddof: if given, the divisor is N - ddof
fweights: integer frequencies of the observations
aweights: weights of the observations
dtype: dtype of the result
-> A square matrix; for a single variable, its variance.
>>> mx.np.cov(mx.np.array([[1, 2, 3], [3, 2, 1]]))
array([[ 1., -1.],
       [-1.,  1.]], dtype=float64)""",
    "correlate": """Computes the cross-correlation of two vectors.
a, v: vectors
mode: "valid": only complete overlaps; "same": length of the longer vector; "full": all overlaps
-> A vector.
>>> mx.np.correlate(mx.np.array([1, 2, 3]), mx.np.array([0, 1]))
array([2., 3.])""",
    "digitize": """Returns the index of each number's bin.
x: ndarray or number
bins: vector of edges, increasing or decreasing
right: whether bins include their right edge instead of their left one
-> Indices (int64); 0 is before the first edge.
! ValueError: the edges are not monotonic.
>>> mx.np.digitize(mx.np.array([0.5, 2, 9]), mx.np.array([1, 2, 3]))
array([0, 2, 3], dtype=int64)""",
    "histogram2d": """Computes a two-dimensional histogram of points.
x, y: vectors of coordinates
bins: number of bins of each axis: an int, a pair of ints, or edges
range: a pair of (first edge, last edge); default: the range of the data
normed: old name of density
weights: weights of the points
density: whether to divide by the total and by the areas of the bins
-> A tuple of the counts, indexed by x and y, the edges of x, and the edges of y.
>>> mx.np.histogram2d(mx.np.array([0, 1, 1]), mx.np.array([0, 0, 1]), bins=2)[0]
array([[1., 0.],
       [1., 1.]], dtype=float64)""",
    "histogram_bin_edges": """Returns the bin edges of a histogram.
a: ndarray of the data
bins: number of bins, their edges, or the name of a rule, such as "auto"
range: (first edge, last edge); default: the range of the data
weights: weights of the data; must be None with a rule
-> A vector.
>>> mx.np.histogram_bin_edges(mx.np.array([0, 1, 4]), bins=2)
array([0., 2., 4.])""",
    "histogramdd": """Computes a histogram of points in several dimensions.
sample: ndarray of shape (points, dimensions)
bins: number of bins of each axis: an int, a sequence of ints, or edges
range: a pair (first edge, last edge) for each axis; default: the range of the data
normed: old name of density
weights: weights of the points
density: whether to divide by the total and by the volumes of the bins
-> A tuple of the counts and the edges of each axis.
>>> counts, edges = mx.np.histogramdd(mx.np.array([[0, 0], [1, 0], [1, 1]]), bins=2)
>>> counts
array([[1., 0.],
       [1., 1.]], dtype=float64)""",
    "cumprod": """Returns the cumulative product along an axis.
a: ndarray
axis: axis along which to operate; None: use the flattened array
dtype: dtype of the result
out: ndarray to write to
-> An ndarray.
>>> mx.np.cumprod(mx.np.array([2, 3, 4]))
array([ 2.,  6., 24.])""",
    "nancumprod": """Returns the cumulative product along an axis, treating NaN as 1.
a: ndarray
axis: axis along which to operate; None: use the flattened array
dtype: dtype of the result
out: ndarray to write to
-> An ndarray.
>>> mx.np.nancumprod(mx.np.array([2, np.nan, 3]))
array([2., 2., 6.])""",
    "nancumsum": """Returns the cumulative sum along an axis, treating NaN as 0.
a: ndarray
axis: axis along which to operate; None: use the flattened array
dtype: dtype of the result
out: ndarray to write to
-> An ndarray.
>>> mx.np.nancumsum(mx.np.array([2, np.nan, 3]))
array([2., 2., 5.])""",
    "nanmax": """Returns the maximum over axes, ignoring NaN.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
out: ndarray to write to
keepdims: whether to keep the reduced axes with size 1
initial: lower limit of the result
where: ndarray of booleans: elements to include
-> An ndarray, or a number.
>>> mx.np.nanmax(mx.np.array([[1, np.nan], [3, 2]]), axis=1)
array([1., 3.])""",
    "nanmin": """Returns the minimum over axes, ignoring NaN.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
out: ndarray to write to
keepdims: whether to keep the reduced axes with size 1
initial: upper limit of the result
where: ndarray of booleans: elements to include
-> An ndarray, or a number.
>>> mx.np.nanmin(mx.np.array([[1, np.nan], [3, 2]]), axis=1)
array([1., 2.])""",
    "nanmedian": """Returns the median over axes, ignoring NaN.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
out: ndarray to write to
overwrite_input: this has no effect on an ndarray
keepdims: whether to keep the reduced axes with size 1
-> An ndarray, or a number.
>>> mx.np.nanmedian(mx.np.array([[1, np.nan, 3], [4, 5, 6]]), axis=1)
array([2., 5.])""",
    "nanpercentile": """Returns the q-th percentiles over axes, ignoring NaN.
a: ndarray
q: number or ndarray of numbers in [0, 100]
axis: int or tuple of ints: axes to reduce; None: all
out: ndarray to write to
overwrite_input: this has no effect on an ndarray
method: interpolation: "linear", "lower", "higher", "midpoint", "nearest" or another of NumPy's methods
keepdims: whether to keep the reduced axes with size 1
interpolation: old name of method
-> An ndarray, or a number.
! ValueError: a percentile is not in [0, 100].
>>> mx.np.nanpercentile(mx.np.array([[1, np.nan, 3], [4, 5, 6]]), 50, axis=1)
array([2., 5.])""",
    "nanquantile": """Returns the q-th quantiles over axes, ignoring NaN.
a: ndarray
q: number or ndarray of numbers in [0, 1]
axis: int or tuple of ints: axes to reduce; None: all
out: ndarray to write to
overwrite_input: this has no effect on an ndarray
method: interpolation: "linear", "lower", "higher", "midpoint", "nearest" or another of NumPy's methods
keepdims: whether to keep the reduced axes with size 1
interpolation: old name of method
-> An ndarray, or a number.
! ValueError: a quantile is not in [0, 1].
>>> mx.np.nanquantile(mx.np.array([[1, np.nan, 3], [4, 5, 6]]), 0.5, axis=1)
array([2., 5.])""",
    "nanprod": """Returns the product over axes, treating NaN as 1.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
dtype: dtype of the result
out: ndarray to write to
keepdims: whether to keep the reduced axes with size 1
initial: initial value of the product
where: ndarray of booleans: elements to include
-> An ndarray, or a number.
>>> mx.np.nanprod(mx.np.array([[2, np.nan], [3, 2]]), axis=1)
array([2., 6.])""",
    "ptp": """Returns the range of the values (maximum minus minimum) along an axis.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
out: ndarray to write to
keepdims: whether to keep the reduced axes with size 1
-> An ndarray, or a number.
>>> mx.np.ptp(mx.np.array([[1, 5], [4, 2]]), axis=1)
array([4., 2.])""",
    "trapz": """Integrates values along an axis by the trapezoidal rule.
y: ndarray of values
x: sample points; default: evenly spaced
dx: distance between sample points if x is None
axis: axis along which to operate
-> An ndarray, or a number.
>>> mx.np.trapz(mx.np.array([[1, 2, 3], [0, 2, 0]]), dx=2)
array([8., 4.])""",
    # ------------------------------------------------------------ polynomials, interpolation
    "interp": """Interpolates a function linearly between given points.
x: ndarray or number: points at which to interpolate
xp: vector of the given points, increasing
fp: vector of the values at these points
left, right: values before the first and after the last point; default: the values at these points
period: period of the points; None: not periodic
-> An ndarray (float64), or a number.
>>> mx.np.interp(mx.np.array([0, 1.5, 9]), mx.np.array([1, 2]), mx.np.array([10, 20]))
array([10., 15., 20.], dtype=float64)""",
    "piecewise": """Evaluates each function on the elements for which its condition is true.
x: ndarray
condlist: list of ndarrays of booleans
funclist: list of functions or numbers; an additional last one applies where no condition is true
args: further positional arguments of the functions
kw: further keyword arguments of the functions
-> An ndarray of the shape and dtype of x.
! ValueError: the lengths of the lists do not match.
>>> x = mx.np.array([-2, 3])
>>> mx.np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 10])
array([ 2., 30.])""",
    "poly": """Returns the coefficients of the polynomial with the given roots, highest power first.
seq_of_zeros: vector of the roots, or a square matrix whose eigenvalues are the roots
-> A vector.
>>> mx.np.poly(mx.np.array([1, -1]))
array([ 1.,  0., -1.])""",
    "polyadd": """Adds two polynomials.
a1, a2: vectors of coefficients, highest power first
-> A vector.
>>> mx.np.polyadd(mx.np.array([1, 0]), mx.np.array([5]))
array([1., 5.])""",
    "polysub": """Subtracts the second polynomial from the first.
a1, a2: vectors of coefficients, highest power first
-> A vector.
>>> mx.np.polysub(mx.np.array([1, 0]), mx.np.array([5]))
array([ 1., -5.])""",
    "polymul": """Multiplies two polynomials.
a1, a2: vectors of coefficients, highest power first
-> A vector.
>>> mx.np.polymul(mx.np.array([1, 1]), mx.np.array([1, -1]))
array([ 1.,  0., -1.])""",
    "polydiv": """Returns the quotient and the remainder of two polynomials.
u, v: vectors of coefficients, highest power first
-> A pair of vectors.
>>> quotient, rest = mx.np.polydiv(mx.np.array([1, 0, -1]), mx.np.array([1, 1]))
>>> quotient
array([ 1., -1.])""",
    "polyfit": """Fits a polynomial to points by least squares.
x: vector of x-coordinates
y: y-coordinates: a vector, or a matrix with one column per fit
deg: degree of the polynomial
rcond: cutoff: singular values up to this fraction of the largest one are treated as zero
full: whether to return residuals, rank, singular values and rcond as well
w: weights of the points
cov: whether to return the covariances of the coefficients as well
-> Coefficients, highest power first; with full or cov, a tuple.
>>> mx.np.polyfit(mx.np.array([0, 1, 2]), mx.np.array([1, 3, 5]), 1).round(2)
array([2., 1.], dtype=float64)""",
    "polyint": """Returns an antiderivative of a polynomial.
p: vector of coefficients, highest power first
m: number of integrations
k: constants of integration; default: 0
-> A vector.
>>> mx.np.polyint(mx.np.array([2, 1]))
array([1., 1., 0.], dtype=float64)""",
    "roots": """Returns the roots of a polynomial.
p: vector of coefficients, highest power first
-> A vector; a NumPy array if roots are complex.
>>> mx.np.sort(mx.np.roots(mx.np.array([1, 0, -1]))).round(2)
array([-1.,  1.])""",
    "vander": """Returns the Vandermonde matrix: the powers of each number in a row.
x: vector
N: number of columns; default: the number of rows
increasing: whether the powers increase from left to right
-> A matrix.
>>> mx.np.vander(mx.np.array([2, 3]), 3)
array([[4., 2., 1.],
       [9., 3., 1.]], dtype=float64)""",
    # ------------------------------------------------------------ axes, bits, types
    "apply_along_axis": """Applies a function to each vector along an axis.
func1d: function of a NumPy vector
axis: axis along which to operate
arr: ndarray
args: further positional arguments of the function
kwargs: further keyword arguments of the function
-> An ndarray; the results of the function replace the axis.
>>> mx.np.apply_along_axis(lambda row: row[0] + row[-1], 1, mx.np.array([[1, 2, 3], [4, 5, 6]]))
array([ 4., 10.])""",
    "apply_over_axes": """Applies a function repeatedly, over one axis after another.
func: function(NumPy array, axis) that keeps or removes the axis
a: ndarray
axes: int or sequence of ints
-> An ndarray with the same number of axes.
! ValueError: the function returned an array with a wrong number of axes.
>>> mx.np.apply_over_axes(np.sum, mx.np.array([[1, 2], [3, 4]]), [0, 1])
array([[10.]])""",
    "rollaxis": """Moves an axis before another axis.
a: ndarray
axis: axis to move
start: axis before which to place it
-> A copy.
>>> mx.np.rollaxis(mx.np.zeros((1, 2, 3)), 2).shape
(3, 1, 2)""",
    "nanstd": """Returns the standard deviation over axes, ignoring NaN.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
dtype: dtype of the result
out: ndarray to write to
ddof: delta degrees of freedom: the divisor is the number of elements minus ddof
keepdims: whether to keep the reduced axes with size 1
mean: the mean, if known; correction: another name of ddof
where: elements to include
-> An ndarray, or a number if all axes are reduced.
>>> mx.np.nanstd(mx.np.array([[1, 3, np.nan]]), axis=1)
array([1.])""",
    "nansum": """Returns the sum over axes, ignoring NaN.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
dtype: dtype of the result
out: ndarray to write to
keepdims: whether to keep the reduced axes with size 1
initial: initial value of the sum
where: elements to include
-> An ndarray, or a number if all axes are reduced.
>>> mx.np.nansum(mx.np.array([[1, 3, np.nan]]), axis=1)
array([4.])""",
    "nanvar": """Returns the variance over axes, ignoring NaN.
a: ndarray
axis: int or tuple of ints: axes to reduce; None: all
dtype: dtype of the result
out: ndarray to write to
ddof: delta degrees of freedom: the divisor is the number of elements minus ddof
keepdims: whether to keep the reduced axes with size 1
mean: the mean, if known; correction: another name of ddof
where: elements to include
-> An ndarray, or a number if all axes are reduced.
>>> mx.np.nanvar(mx.np.array([[1, 3, np.nan]]), axis=1)
array([1.])""",
    "ndim": """Returns the number of axes of an array.
a: ndarray or number
-> An int.
>>> mx.np.ndim(mx.np.zeros((2, 3)))
2""",
    "size": """Returns the number of elements of an array.
a: ndarray or number
axis: axis along which to count; default: all
-> An int.
>>> mx.np.size(mx.np.zeros((2, 3)))
6""",
    "packbits": """Packs booleans into the bits of bytes.
a: ndarray of integers or booleans; nonzero elements set bits
axis: axis along which to operate; None: use the flattened array
bitorder: "big": the first of eight elements is the highest bit; "little": the lowest
-> An ndarray of uint8.
! TypeError: `a` has a floating-point dtype.
>>> mx.np.packbits(mx.np.array([1, 0, 1], dtype="uint8"))
array([160], dtype=uint8)""",
    "unpackbits": """Unpacks the bits of bytes into zeros and ones.
a: ndarray of uint8
axis: axis along which to operate; None: use the flattened array
count: number of bits; if negative: number of bits to omit at the end; None: all
bitorder: "big": the highest bit comes first; "little": the lowest
-> An ndarray of uint8.
! TypeError: the dtype of `a` is not uint8.
>>> mx.np.unpackbits(mx.np.array([160], dtype="uint8"))
array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)""",
    "min_scalar_type": """Returns the smallest dtype that can hold a number; for an array, its dtype.
a: number or ndarray
-> A NumPy dtype.
>>> mx.np.min_scalar_type(300)
dtype('uint16')""",
    "promote_types": """Returns the smallest dtype that can hold the values of two dtypes.
type1, type2: dtypes
-> A NumPy dtype.
>>> mx.np.promote_types("int8", "uint8")
dtype('int16')""",
    "result_type": """Returns the dtype of the result in NumPy's arithmetic; functions of mx.np may differ.
arrays_and_dtypes: ndarrays, numbers and dtypes
-> A NumPy dtype.
>>> mx.np.result_type(mx.np.array([1], dtype="int8"), mx.np.array([1], dtype="float32"))
dtype('float32')""",
    # ------------------------------------------------------------ linear algebra
    "cond": """Returns the condition number of a matrix: its norm times the norm of its inverse.
x: ndarray of shape (..., m, n)
p: norm: None (largest / smallest singular value), 1, -1, 2, -2, np.inf, -np.inf or "fro"
-> An ndarray of shape (...), or a number.
>>> float(mx.np.linalg.cond(mx.np.array([[2, 0], [0, 4]])))
2.0""",
    "lstsq": """Solves a·x = b in the least-squares sense.
a: ndarray of shape (m, n)
b: ndarray of shape (m) or (m, k)
rcond: cutoff: singular values up to this fraction of the largest one are treated as zero
-> A tuple: x of shape (n) or (n, k), the sums of squared residuals, the rank, and the singular values.
>>> mx.np.linalg.lstsq(mx.np.array([[1, 0], [1, 1], [1, 2]]), mx.np.array([1, 3, 5]))[0].round(2)
array([1., 2.])""",
    "matrix_power": """Raises square matrices to an integer power.
a: ndarray of shape (..., n, n)
n: exponent; if negative, the inverse is raised to its absolute value
-> An ndarray of shape (..., n, n).
>>> mx.np.linalg.matrix_power(mx.np.array([[1, 1], [0, 1]]), 3)
array([[1., 3.],
       [0., 1.]])""",
    "matrix_rank": """Returns the rank of matrices.
A: ndarray of shape (..., m, n), or a vector
tol: singular values up to this are treated as zero; the default depends on the dtype
hermitian: whether the matrices are symmetric
rtol: like tol, relative to the largest singular value
-> An int, or an ndarray of ints.
>>> int(mx.np.linalg.matrix_rank(mx.np.array([[1, 2], [2, 4]])))
1""",
    "multi_dot": """Multiplies several matrices in the order with the fewest multiplications.
arrays: sequence of matrices; the first and the last may be vectors
out: ndarray to write to
-> An ndarray.
! ValueError: there are fewer than two arrays.
>>> a = mx.np.array([[1, 1], [0, 1]])
>>> mx.np.linalg.multi_dot([a, a, mx.np.array([1, 2])])
array([5., 2.])""",
    "qr": """Computes the QR factorization of matrices.
a: ndarray of shape (..., m, n)
mode: "reduced" (min(m, n) columns), "complete" (m columns), "r" (only the triangular factor) or "raw"
-> A pair of ndarrays (the factors q and r), or one ndarray.
>>> q, r = mx.np.linalg.qr(mx.np.array([[0, 2], [3, 0]]))
>>> mx.np.dot(q, r)
array([[0., 2.],
       [3., 0.]])""",
    # ------------------------------------------------------------ of the package numpy_financial
    "mirr": f"Returns the modified internal rate of return of payments.\n{_FINANCIAL}",
    "npv": f"Returns the net present value of payments at an interest rate.\n{_FINANCIAL}",
    "pmt": f"Returns the constant payment that pays off a loan.\n{_FINANCIAL}",
    "ppmt": f"Returns the part of a payment that pays off the principal.\n{_FINANCIAL}",
    "pv": f"Returns the present value of constant payments.\n{_FINANCIAL}",
    "rate": f"Returns the interest rate of constant payments.\n{_FINANCIAL}",
}


def document(name: str, who: str = "NumPy") -> str:
    """Returns the docstring of a function that NumPy or another package computes."""
    first, *lines = _TEXTS.get(name, f"NumPy's `{name}`.").split("\n")
    sections: dict[str, list[str]] = {"Args": [], "Returns": [], "Raises": [_RECORDING], "Example": []}
    for line in lines:
        mark, _, rest = line.partition(" ")
        if sections["Example"] or mark == ">>>":
            sections["Example"].append(line)
        elif mark in ("->", "!"):
            sections["Returns" if mark == "->" else "Raises"].append(rest)
        else:
            sections["Args"].append(line)
    parts = ["\n    ".join([f"{title}:", *rows]) for title, rows in sections.items() if rows]
    return "\n\n".join([first, _HOST.format(who), *parts])
