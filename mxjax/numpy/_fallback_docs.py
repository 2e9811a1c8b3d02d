"""What the functions that NumPy computes are said to do: a line, their arguments, what they return, an example.

In a text of `_TEXTS`, lines of a colon are arguments, `->` begins the result, `!` an error, `>>>` the example.
"""

from __future__ import annotations

__all__ = ["document"]

_HOST = "{} computes it on the host: ndarrays go there and back, and there is no gradient."
_RECORDING = "ValueError: the call is being recorded by autograd."
_OPTIONS = "NumPy's ufunc options; leave them at their defaults"
_OUT = "out: ndarray to write to"
_OTHERS = f"where, casting, order, dtype, subok, signature: {_OPTIONS}"
_UFUNC, _UFUNC_OF_TWO = f"{_OUT}\n{_OTHERS}", f"out: a pair of ndarrays to write to\n{_OTHERS}"
_FINANCIAL = ("args, kwargs: those of the package's function\n-> A number or an ndarray.\n"
              "! MXNetError: the package is not installed.")

_TEXTS = {
    # ------------------------------------------------------------ comparisons
    "allclose": """Whether all elements of two arrays are equal within a tolerance: |a - b| ≤ atol + rtol · |b|.
a, b: ndarrays or numbers that broadcast
rtol: tolerance relative to b
atol: absolute tolerance
equal_nan: whether NaN equals NaN
-> A bool.
>>> mx.np.allclose(mx.np.array([1, 2]), mx.np.array([1, 2.000001]))
True""",
    "isclose": """Whether elements are equal within a tolerance: |a - b| ≤ atol + rtol · |b|.
a, b: ndarrays or numbers that broadcast
rtol: tolerance relative to b
atol: absolute tolerance
equal_nan: whether NaN equals NaN
-> An ndarray of booleans.
>>> mx.np.isclose(mx.np.array([1, 2]), mx.np.array([1, 2.5]))
array([ True, False])""",
    "array_equal": """Whether two arrays have one shape and the same elements.
a1, a2: ndarrays
equal_nan: whether NaN equals NaN
-> A bool.
>>> mx.np.array_equal(mx.np.array([1, 2]), mx.np.array([1, 2]))
True""",
    "array_equiv": """Whether two arrays have the same elements once they are broadcast.
a1, a2: ndarrays
-> A bool.
>>> mx.np.array_equiv(mx.np.array([1, 2]), mx.np.array([[1, 2], [1, 2]]))
True""",
    "alltrue": """Whether all elements along axes are nonzero: NumPy's `all` under its old name.
args: the ndarray, then the axis or a tuple of axes; None: all
kwargs: those of `numpy.all`, such as `axis` and `keepdims`
-> An ndarray of booleans, or a boolean.
>>> mx.np.alltrue(mx.np.array([[1, 0], [1, 1]]), axis=1)
array([False,  True])""",
    "signbit": f"""Whether the sign bit is set, that of -0.0 as well, element by element.
x: ndarray or number
{_UFUNC}
-> An ndarray of booleans.
>>> mx.np.signbit(mx.np.array([-1, 0, 2]))
array([ True, False, False])""",
    # ------------------------------------------------------------ element by element
    "divmod": f"""Quotient, rounded down, and remainder, element by element.
x1, x2: ndarrays or numbers that broadcast
{_UFUNC_OF_TWO}
-> A pair of ndarrays.
>>> quotient, rest = mx.np.divmod(mx.np.array([7, -7]), 3)
>>> quotient
array([ 2., -3.])
>>> rest
array([1., 2.])""",
    "float_power": f"""x1 to the power of x2 in float64, element by element.
x1, x2: ndarrays or numbers that broadcast
{_UFUNC}
-> An ndarray of float64.
>>> mx.np.float_power(mx.np.array([1, 2, 4]), 0.5).round(2)
array([1.  , 1.41, 2.  ], dtype=float64)""",
    "frexp": f"""x as mantissa · 2 to the power of an exponent, element by element.
x: ndarray or number
{_UFUNC_OF_TWO}
-> A pair of ndarrays: mantissas in [0.5, 1), with x's sign, and exponents (int32).
>>> mantissa, exponent = mx.np.frexp(mx.np.array([1, 6]))
>>> mantissa
array([0.5 , 0.75])
>>> exponent
array([1, 3], dtype=int32)""",
    "heaviside": f"""The step from 0 (of negative x1) to 1 (of positive x1), with x2 at 0, element by element.
x1: ndarray or number
x2: ndarray or number, which broadcasts: the value where x1 is 0
{_UFUNC}
-> An ndarray.
>>> mx.np.heaviside(mx.np.array([-2, 0, 3]), 0.5)
array([0. , 0.5, 1. ])""",
    "modf": f"""Fractional and integer part, both with x's sign, element by element.
x: ndarray or number
{_UFUNC_OF_TWO}
-> A pair of ndarrays.
>>> fraction, whole = mx.np.modf(mx.np.array([1.5, -2.25]))
>>> fraction
array([ 0.5 , -0.25])
>>> whole
array([ 1., -2.])""",
    "positive": f"""A copy: +x, element by element.
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
    "real": """The real part, element by element: the values themselves, as ndarrays are never complex.
val: ndarray or number
-> An ndarray.
>>> mx.np.real(mx.np.array([1, 2]))
array([1., 2.])""",
    "unwrap": """Angles without jumps: where neighbours differ by more than half a period, multiples of it are added.
p: ndarray of angles
discont: the least difference that counts as a jump; default half the period
axis: the axis along which neighbours are compared
period: after which values repeat, 2π by default
-> An ndarray.
>>> mx.np.unwrap(mx.np.array([0, 3, 1]), period=4)
array([ 0., -1., -3.])""",
    # ------------------------------------------------------------ elements and positions
    "argpartition": """Positions that put an array in the order of `partition`.
a: ndarray
kth: int or sequence of ints: which elements of the sorted array come to their places
axis: the axis; None: of the flattened array
kind: "introselect"
order: only None
-> An ndarray of int64.
! ValueError: kth is out of range.
>>> a = mx.np.array([3, 1, 2])
>>> mx.np.take(a, mx.np.argpartition(a, 0)[:1])
array([1.])""",
    "argwhere": """Positions of the nonzero elements, a row each.
a: ndarray
-> An int64 ndarray (count, dimensions).
>>> mx.np.argwhere(mx.np.array([[0, 7], [8, 0]]))
array([[0, 1],
       [1, 0]], dtype=int64)""",
    "choose": """Elements out of several arrays: of array `a[i]` at place i.
a: ndarray of integers: which array
choices: sequence of ndarrays, or an ndarray whose first axis counts them, which broadcast with a
out: ndarray to write to
mode: "raise" refuses numbers out of range, "clip" limits them, "wrap" counts modulo the number of arrays
-> An ndarray.
! ValueError: a number out of range, where mode is "raise".
>>> mx.np.choose(mx.np.array([0, 1], dtype="int64"), [mx.np.array([1, 2]), mx.np.array([10, 20])])
array([ 1., 20.])""",
    "compress": """The slices of an axis where a condition holds.
condition: vector of booleans
a: ndarray
axis: the axis; None: elements of the flattened array
out: ndarray to write to
-> An ndarray.
>>> mx.np.compress(mx.np.array([0, 1, 1]), mx.np.array([5, 6, 7]))
array([6., 7.])""",
    "count_nonzero": """How many elements along axes are nonzero.
a: ndarray
axis: int or tuple of ints; None: all
keepdims: keep reduced axes with size 1
-> An int, or an ndarray of int64.
>>> mx.np.count_nonzero(mx.np.array([[1, 0], [2, 3]]), axis=1)
array([1, 2], dtype=int64)""",
    "extract": """The elements where a condition holds.
condition: ndarray of booleans of the shape of arr
arr: ndarray
-> A vector.
>>> a = mx.np.array([[1, 2], [3, 4]])
>>> mx.np.extract(a > 2, a)
array([3., 4.])""",
    "flatnonzero": """Positions of the nonzero elements in the flattened array.
a: ndarray
-> A vector of int64.
>>> mx.np.flatnonzero(mx.np.array([[0, 7], [8, 0]]))
array([1, 2], dtype=int64)""",
    "ix_": """Vectors of positions, shaped so that together they select a grid of rows, columns, ...
args: vectors of integers or booleans
-> A tuple of int64 ndarrays, each along an axis of its own.
>>> a = mx.np.array([[1, 2, 3], [4, 5, 6]])
>>> rows, columns = mx.np.ix_([0, 1], [0, 2])
>>> a[rows, columns]
array([[1., 3.],
       [4., 6.]])""",
    "lexsort": """Positions that sort by several keys.
keys: sequence of ndarrays of one shape, or an ndarray whose first axis counts them; the last key counts first
axis: the axis
-> An ndarray of int64.
>>> mx.np.lexsort((mx.np.array([2, 1, 0]), mx.np.array([5, 5, 4])))
array([2, 1, 0], dtype=int64)""",
    "msort": """The values in order along the first axis.
a: ndarray
-> A sorted copy.
>>> mx.np.msort(mx.np.array([[3, 1], [2, 4]]))
array([[2., 1.],
       [3., 4.]])""",
    "nanargmax": """Position of the maximum along an axis, without NaN.
a: ndarray
axis: the axis; None: in the flattened array
out: ndarray to write to
keepdims: keep the axis with size 1
-> Positions (int64).
! ValueError: there is nothing but NaN.
>>> mx.np.nanargmax(mx.np.array([[1, np.nan, 3], [np.nan, 5, 2]]), axis=1)
array([2, 1], dtype=int64)""",
    "nanargmin": """Position of the minimum along an axis, without NaN.
a: ndarray
axis: the axis; None: in the flattened array
out: ndarray to write to
keepdims: keep the axis with size 1
-> Positions (int64).
! ValueError: there is nothing but NaN.
>>> mx.np.nanargmin(mx.np.array([[1, np.nan, 3], [np.nan, 5, 2]]), axis=1)
array([0, 2], dtype=int64)""",
    "partition": """The array so ordered that some elements stand where sorting puts them, smaller ones before them.
a: ndarray
kth: int or sequence of ints: which elements of the sorted array come to their places
axis: the axis; None: of the flattened array
kind: "introselect"
order: only None
-> A copy.
! ValueError: kth is out of range.
>>> mx.np.partition(mx.np.array([3, 1, 2]), 1)
array([1., 2., 3.])""",
    "searchsorted": """Where numbers have to be inserted into a sorted vector to keep it sorted.
a: vector, sorted unless there is a sorter
v: ndarray or number
side: "left" before equal elements, "right" behind them
sorter: positions that sort a
-> Positions (int64).
>>> mx.np.searchsorted(mx.np.array([1, 3, 5]), mx.np.array([0, 3, 6]))
array([0, 1, 3], dtype=int64)""",
    "select": """Elements out of several arrays: of the first whose condition holds.
condlist: list of ndarrays of booleans
choicelist: list of as many ndarrays or numbers
default: the value where no condition holds
-> An ndarray.
! ValueError: the lists have different lengths.
>>> a = mx.np.array([1, 2, 3])
>>> mx.np.select([a < 2, a > 2], [a, a * 10], default=0)
array([ 1.,  0., 30.])""",
    "take_along_axis": """Elements at positions that differ from slice to slice, as `argsort` returns them.
arr: ndarray
indices: ndarray of integers that broadcasts with arr in the other axes
axis: the axis; None: of the flattened array
-> An ndarray.
! IndexError: a position out of range.
>>> a = mx.np.array([[3, 1], [2, 4]])
>>> mx.np.take_along_axis(a, mx.np.argsort(a, axis=1), axis=1)
array([[1., 3.],
       [2., 4.]])""",
    "tril_indices_from": """Positions of what is on and below the k-th diagonal of a matrix.
arr: ndarray (m, n)
k: which diagonal: 0 the main one, above it positive, below it negative
-> A pair of int64 vectors: rows and columns.
! ValueError: arr is no matrix.
>>> rows, columns = mx.np.tril_indices_from(mx.np.zeros((2, 2)))
>>> rows
array([0, 1, 1], dtype=int64)
>>> columns
array([0, 0, 1], dtype=int64)""",
    "triu_indices_from": """Positions of what is on and above the k-th diagonal of a matrix.
arr: ndarray (m, n)
k: which diagonal: 0 the main one, above it positive, below it negative
-> A pair of int64 vectors: rows and columns.
! ValueError: arr is no matrix.
>>> rows, columns = mx.np.triu_indices_from(mx.np.zeros((2, 2)))
>>> rows
array([0, 0, 1], dtype=int64)
>>> columns
array([0, 1, 1], dtype=int64)""",
    "trim_zeros": """A vector without the zeros at its ends.
filt: vector
trim: "f" at the front, "b" at the back, "fb" both
axis: None, or the axes to trim
-> A vector.
>>> mx.np.trim_zeros(mx.np.array([0, 1, 0, 2, 0]))
array([1., 0., 2.])""",
    # ------------------------------------------------------------ sets
    "in1d": """Whether the elements of one array are in another one; the first one is flattened.
ar1: ndarray
ar2: ndarray to look in
assume_unique: all elements of each array differ
invert: whether they are not
-> A vector of booleans.
>>> mx.np.in1d(mx.np.array([1, 2, 3]), mx.np.array([3, 1]))
array([ True, False,  True])""",
    "isin": """Whether elements are in another array.
element: ndarray or number
test_elements: ndarray to look in
assume_unique: all elements of each array differ
invert: whether they are not
kind: how NumPy looks: None, "sort" or "table"
-> An ndarray of booleans, of the shape of element.
>>> mx.np.isin(mx.np.array([[1, 2], [3, 4]]), mx.np.array([4, 1]))
array([[ True, False],
       [False,  True]])""",
    "intersect1d": """What is in both arrays, in order.
ar1, ar2: ndarrays
assume_unique: all elements of each array differ
return_indices: also return where they are, first, in both arrays
-> A vector; with return_indices a tuple of three.
>>> mx.np.intersect1d(mx.np.array([3, 1, 2]), mx.np.array([2, 3, 4]))
array([2., 3.])""",
    "setdiff1d": """What is in the first array and not in the second, in order.
ar1, ar2: ndarrays
assume_unique: all elements of each array differ
-> A vector.
>>> mx.np.setdiff1d(mx.np.array([3, 1, 2]), mx.np.array([2]))
array([1., 3.])""",
    "setxor1d": """What is in exactly one of two arrays, in order.
ar1, ar2: ndarrays
assume_unique: all elements of each array differ
-> A vector.
>>> mx.np.setxor1d(mx.np.array([1, 2]), mx.np.array([2, 3]))
array([1., 3.])""",
    "union1d": """What is in one or both of two arrays, in order.
ar1, ar2: ndarrays
-> A vector.
>>> mx.np.union1d(mx.np.array([3, 1]), mx.np.array([2, 3]))
array([1., 2., 3.])""",
    # ------------------------------------------------------------ statistics
    "corrcoef": """Correlation coefficients of variables.
x: vector or matrix, a row for each variable
y: further variables
rowvar: whether rows, and not columns, are variables
bias, ddof: have no effect
dtype: of the result
-> A square matrix.
>>> mx.np.corrcoef(mx.np.array([[1, 2, 3], [3, 2, 1]])).round(2)
array([[ 1., -1.],
       [-1.,  1.]], dtype=float64)""",
    "cov": """Covariances of variables.
m: vector or matrix, a row for each variable
y: further variables
rowvar: whether rows, and not columns, are variables
bias: divide by the number of observations; otherwise by one less
ddof: divide by the number of observations less this
fweights: how often each observation counts, integers
aweights: weights of the observations
dtype: of the result
-> A square matrix; of a single variable its variance.
>>> mx.np.cov(mx.np.array([[1, 2, 3], [3, 2, 1]]))
array([[ 1., -1.],
       [-1.,  1.]], dtype=float64)""",
    "correlate": """Sums of products of a vector and another one shifted along it.
a, v: vectors
mode: "valid" only where they overlap in full, "same" as long as the longer one, "full" wherever they overlap
-> A vector.
>>> mx.np.correlate(mx.np.array([1, 2, 3]), mx.np.array([0, 1]))
array([2., 3.])""",
    "digitize": """Which bin each number is in.
x: ndarray or number
bins: vector of edges, rising or falling
right: whether bins have their right edge, and not their left one
-> Positions (int64): 0 is before the first edge.
! ValueError: the edges are in no order.
>>> mx.np.digitize(mx.np.array([0.5, 2, 9]), mx.np.array([1, 2, 3]))
array([0, 2, 3], dtype=int64)""",
    "histogram2d": """Counts of points in the bins of a plane, and the bins' edges.
x, y: vectors of coordinates
bins: how many bins each axis has: an int, a pair of ints, or edges
range: a pair of (first edge, last edge); default those of the data
normed: as density, under its old name
weights: how much each point counts
density: divide by the total and by the bins' areas
-> A tuple of the counts (x, y), the edges of x and those of y.
>>> mx.np.histogram2d(mx.np.array([0, 1, 1]), mx.np.array([0, 0, 1]), bins=2)[0]
array([[1., 0.],
       [1., 1.]], dtype=float64)""",
    "histogram_bin_edges": """The edges that a histogram has.
a: ndarray of the data
bins: how many bins, their edges, or the name of a rule, such as "auto"
range: (first edge, last edge); default those of the data
weights: only None with a rule
-> A vector.
>>> mx.np.histogram_bin_edges(mx.np.array([0, 1, 4]), bins=2)
array([0., 2., 4.])""",
    "histogramdd": """Counts of points in the bins of a space, and the bins' edges.
sample: ndarray (points, dimensions)
bins: how many bins each axis has: an int, a sequence of ints, or edges
range: a pair (first edge, last edge) for each axis; default those of the data
normed: as density, under its old name
weights: how much each point counts
density: divide by the total and by the bins' volumes
-> A tuple of the counts, and the edges of each axis.
>>> counts, edges = mx.np.histogramdd(mx.np.array([[0, 0], [1, 0], [1, 1]]), bins=2)
>>> counts
array([[1., 0.],
       [1., 1.]], dtype=float64)""",
    "cumprod": """Running products along an axis.
a: ndarray
axis: the axis; None: of the flattened array
dtype: of the result
out: ndarray to write to
-> An ndarray.
>>> mx.np.cumprod(mx.np.array([2, 3, 4]))
array([ 2.,  6., 24.])""",
    "nancumprod": """Running products along an axis; NaN counts as 1.
a: ndarray
axis: the axis; None: of the flattened array
dtype: of the result
out: ndarray to write to
-> An ndarray.
>>> mx.np.nancumprod(mx.np.array([2, np.nan, 3]))
array([2., 2., 6.])""",
    "nancumsum": """Running sums along an axis; NaN counts as 0.
a: ndarray
axis: the axis; None: of the flattened array
dtype: of the result
out: ndarray to write to
-> An ndarray.
>>> mx.np.nancumsum(mx.np.array([2, np.nan, 3]))
array([2., 2., 5.])""",
    "nanmax": """Maximum over axes, without NaN.
a: ndarray
axis: int or tuple of ints; None: all
out: ndarray to write to
keepdims: keep reduced axes with size 1
initial: the least that the result can be
where: which elements count, an ndarray of booleans
-> An ndarray, or a number.
>>> mx.np.nanmax(mx.np.array([[1, np.nan], [3, 2]]), axis=1)
array([1., 3.])""",
    "nanmin": """Minimum over axes, without NaN.
a: ndarray
axis: int or tuple of ints; None: all
out: ndarray to write to
keepdims: keep reduced axes with size 1
initial: the largest that the result can be
where: which elements count, an ndarray of booleans
-> An ndarray, or a number.
>>> mx.np.nanmin(mx.np.array([[1, np.nan], [3, 2]]), axis=1)
array([1., 2.])""",
    "nanmedian": """Median over axes, without NaN.
a: ndarray
axis: int or tuple of ints; None: all
out: ndarray to write to
overwrite_input: has no effect on an ndarray
keepdims: keep reduced axes with size 1
-> An ndarray, or a number.
>>> mx.np.nanmedian(mx.np.array([[1, np.nan, 3], [4, 5, 6]]), axis=1)
array([2., 5.])""",
    "nanpercentile": """The q-th percentiles over axes, without NaN.
a: ndarray
q: a number, or an ndarray of them, in [0, 100]
axis: int or tuple of ints; None: all
out: ndarray to write to
overwrite_input: has no effect on an ndarray
method: what is between two elements: "linear", "lower", "higher", "midpoint", "nearest" or another one of NumPy's
keepdims: keep reduced axes with size 1
interpolation: as method, under its old name
-> An ndarray, or a number.
! ValueError: a percentile is not in [0, 100].
>>> mx.np.nanpercentile(mx.np.array([[1, np.nan, 3], [4, 5, 6]]), 50, axis=1)
array([2., 5.])""",
    "nanquantile": """The q-th quantiles over axes, without NaN.
a: ndarray
q: a number, or an ndarray of them, in [0, 1]
axis: int or tuple of ints; None: all
out: ndarray to write to
overwrite_input: has no effect on an ndarray
method: what is between two elements: "linear", "lower", "higher", "midpoint", "nearest" or another one of NumPy's
keepdims: keep reduced axes with size 1
interpolation: as method, under its old name
-> An ndarray, or a number.
! ValueError: a quantile is not in [0, 1].
>>> mx.np.nanquantile(mx.np.array([[1, np.nan, 3], [4, 5, 6]]), 0.5, axis=1)
array([2., 5.])""",
    "nanprod": """Product over axes; NaN counts as 1.
a: ndarray
axis: int or tuple of ints; None: all
dtype: of the result
out: ndarray to write to
keepdims: keep reduced axes with size 1
initial: a number to begin with
where: which elements count, an ndarray of booleans
-> An ndarray, or a number.
>>> mx.np.nanprod(mx.np.array([[2, np.nan], [3, 2]]), axis=1)
array([2., 6.])""",
    "ptp": """Maximum less minimum along an axis.
a: ndarray
axis: int or tuple of ints; None: all
out: ndarray to write to
keepdims: keep reduced axes with size 1
-> An ndarray, or a number.
>>> mx.np.ptp(mx.np.array([[1, 5], [4, 2]]), axis=1)
array([4., 2.])""",
    "trapz": """Integrals of values along an axis by the trapezoidal rule.
y: ndarray of values
x: where the values are; default at equal distances
dx: the distance, where x is None
axis: the axis
-> An ndarray, or a number.
>>> mx.np.trapz(mx.np.array([[1, 2, 3], [0, 2, 0]]), dx=2)
array([8., 4.])""",
    # ------------------------------------------------------------ polynomials, interpolation
    "interp": """Values of a function that is given at some places and straight between them.
x: ndarray or number: where values are wanted
xp: vector of places, rising
fp: vector of values there
left, right: values before the first and behind the last place; default those of these places
period: after which places repeat; None: not at all
-> An ndarray (float64), or a number.
>>> mx.np.interp(mx.np.array([0, 1.5, 9]), mx.np.array([1, 2]), mx.np.array([10, 20]))
array([10., 15., 20.], dtype=float64)""",
    "piecewise": """Functions, each on the elements where its condition holds.
x: ndarray
condlist: list of ndarrays of booleans
funclist: list of functions or numbers; one more than conditions: of the elements where none holds
args: further arguments of the functions
kw: further keywords of the functions
-> An ndarray of x's shape and dtype.
! ValueError: the lists' lengths do not fit.
>>> x = mx.np.array([-2, 3])
>>> mx.np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 10])
array([ 2., 30.])""",
    "poly": """The coefficients of a polynomial with given roots, the highest power first.
seq_of_zeros: vector of the roots, or a square matrix, whose eigenvalues are
-> A vector.
>>> mx.np.poly(mx.np.array([1, -1]))
array([ 1.,  0., -1.])""",
    "polyadd": """The sum of two polynomials.
a1, a2: vectors of coefficients, the highest power first
-> A vector.
>>> mx.np.polyadd(mx.np.array([1, 0]), mx.np.array([5]))
array([1., 5.])""",
    "polysub": """The difference of two polynomials.
a1, a2: vectors of coefficients, the highest power first
-> A vector.
>>> mx.np.polysub(mx.np.array([1, 0]), mx.np.array([5]))
array([ 1., -5.])""",
    "polymul": """The product of two polynomials.
a1, a2: vectors of coefficients, the highest power first
-> A vector.
>>> mx.np.polymul(mx.np.array([1, 1]), mx.np.array([1, -1]))
array([ 1.,  0., -1.])""",
    "polydiv": """Quotient and remainder of two polynomials.
u, v: vectors of coefficients, the highest power first
-> A pair of vectors.
>>> quotient, rest = mx.np.polydiv(mx.np.array([1, 0, -1]), mx.np.array([1, 1]))
>>> quotient
array([ 1., -1.])""",
    "polyfit": """The polynomial that fits points best, by least squares.
x: vector of places
y: values there: a vector, or a matrix with a column for each fit
deg: the highest power
rcond: singular values up to this times the largest count as zero
full: also return residuals, rank, singular values and rcond
w: weights of the points
cov: also return the covariances of the coefficients
-> Coefficients, the highest power first; with full or cov a tuple.
>>> mx.np.polyfit(mx.np.array([0, 1, 2]), mx.np.array([1, 3, 5]), 1).round(2)
array([2., 1.], dtype=float64)""",
    "polyint": """An antiderivative of a polynomial.
p: vector of coefficients, the highest power first
m: how often it is integrated
k: constants of integration; default 0
-> A vector.
>>> mx.np.polyint(mx.np.array([2, 1]))
array([1., 1., 0.], dtype=float64)""",
    "roots": """The roots of a polynomial.
p: vector of coefficients, the highest power first
-> A vector; a NumPy array where roots are complex.
>>> mx.np.sort(mx.np.roots(mx.np.array([1, 0, -1]))).round(2)
array([-1.,  1.])""",
    "vander": """The powers of numbers, a row for each (Vandermonde's matrix).
x: vector
N: how many columns; default as many as rows
increasing: whether the powers rise from left to right
-> A matrix.
>>> mx.np.vander(mx.np.array([2, 3]), 3)
array([[4., 2., 1.],
       [9., 3., 1.]], dtype=float64)""",
    # ------------------------------------------------------------ axes, bits, types
    "apply_along_axis": """A function of vectors, applied to each one along an axis.
func1d: function of a NumPy vector
axis: the axis
arr: ndarray
args: further arguments of the function
kwargs: further keywords of the function
-> An ndarray; what the function returned stands where the axis was.
>>> mx.np.apply_along_axis(lambda row: row[0] + row[-1], 1, mx.np.array([[1, 2, 3], [4, 5, 6]]))
array([ 4., 10.])""",
    "apply_over_axes": """A function of an array and an axis, applied to several axes, one after the other.
func: function(NumPy array, axis) that keeps the axis or drops it
a: ndarray
axes: int or sequence of ints
-> An ndarray with as many axes.
! ValueError: the function returned an array with other axes.
>>> mx.np.apply_over_axes(np.sum, mx.np.array([[1, 2], [3, 4]]), [0, 1])
array([[10.]])""",
    "rollaxis": """One axis moved before another one.
a: ndarray
axis: the axis that is moved
start: before which axis
-> A copy.
>>> mx.np.rollaxis(mx.np.zeros((1, 2, 3)), 2).shape
(3, 1, 2)""",
    "nanstd": """Standard deviation over axes, without what is NaN.
a: ndarray
axis: int or tuple of ints; None: all
dtype: of the result
out: ndarray to write to
ddof: what is subtracted from the number of elements
keepdims: keep reduced axes with size 1
mean: the mean, where it is known; correction: another name of ddof
where: which elements count
-> An ndarray, or a number where all axes are reduced.
>>> mx.np.nanstd(mx.np.array([[1, 3, np.nan]]), axis=1)
array([1.])""",
    "nansum": """Sum over axes, without what is NaN.
a: ndarray
axis: int or tuple of ints; None: all
dtype: of the result
out: ndarray to write to
keepdims: keep reduced axes with size 1
initial: what the sum begins with
where: which elements count
-> An ndarray, or a number where all axes are reduced.
>>> mx.np.nansum(mx.np.array([[1, 3, np.nan]]), axis=1)
array([4.])""",
    "nanvar": """Variance over axes, without what is NaN.
a: ndarray
axis: int or tuple of ints; None: all
dtype: of the result
out: ndarray to write to
ddof: what is subtracted from the number of elements
keepdims: keep reduced axes with size 1
mean: the mean, where it is known; correction: another name of ddof
where: which elements count
-> An ndarray, or a number where all axes are reduced.
>>> mx.np.nanvar(mx.np.array([[1, 3, np.nan]]), axis=1)
array([1.])""",
    "ndim": """How many axes an array has.
a: ndarray or number
-> An int.
>>> mx.np.ndim(mx.np.zeros((2, 3)))
2""",
    "size": """How many elements an array has.
a: ndarray or number
axis: count only along this axis
-> An int.
>>> mx.np.size(mx.np.zeros((2, 3)))
6""",
    "packbits": """Booleans as the bits of bytes.
a: ndarray of integers or booleans: bits are set where it is nonzero
axis: the axis; None: of the flattened array
bitorder: "big": the first of eight is the highest bit; "little": the lowest
-> An ndarray of uint8.
! TypeError: `a` is of floats.
>>> mx.np.packbits(mx.np.array([1, 0, 1], dtype="uint8"))
array([160], dtype=uint8)""",
    "unpackbits": """The bits of bytes, as zeros and ones.
a: ndarray of uint8
axis: the axis; None: of the flattened array
count: how many bits; negative: how many less; None: all
bitorder: "big": the highest bit comes first; "little": the lowest
-> An ndarray of uint8.
! TypeError: `a` has another dtype.
>>> mx.np.unpackbits(mx.np.array([160], dtype="uint8"))
array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)""",
    "min_scalar_type": """The smallest dtype that holds a number; of an array, its dtype.
a: number or ndarray
-> A NumPy dtype.
>>> mx.np.min_scalar_type(300)
dtype('uint16')""",
    "promote_types": """The smallest dtype that holds what two dtypes hold.
type1, type2: dtypes
-> A NumPy dtype.
>>> mx.np.promote_types("int8", "uint8")
dtype('int16')""",
    "result_type": """The dtype that NumPy's arithmetic gives; that of mx.np's functions may be another one.
arrays_and_dtypes: ndarrays, numbers and dtypes
-> A NumPy dtype.
>>> mx.np.result_type(mx.np.array([1], dtype="int8"), mx.np.array([1], dtype="float32"))
dtype('float32')""",
    # ------------------------------------------------------------ linear algebra
    "cond": """How much a matrix can enlarge relative errors: its norm times that of its inverse.
x: ndarray (..., m, n)
p: the norm: None (the largest singular value by the smallest), 1, -1, 2, -2, np.inf, -np.inf or "fro"
-> An ndarray (...), or a number.
>>> float(mx.np.linalg.cond(mx.np.array([[2, 0], [0, 4]])))
2.0""",
    "lstsq": """x for which a·x comes nearest to b, by least squares.
a: ndarray (m, n)
b: ndarray (m) or (m, k)
rcond: singular values up to this times the largest count as zero
-> A tuple of x (n) or (n, k), the sums of squares that remain, the rank, and the singular values.
>>> mx.np.linalg.lstsq(mx.np.array([[1, 0], [1, 1], [1, 2]]), mx.np.array([1, 3, 5]))[0].round(2)
array([1., 2.])""",
    "matrix_power": """Matrices multiplied with themselves.
a: ndarray (..., n, n)
n: how often; negative: of the inverse
-> An ndarray (..., n, n).
>>> mx.np.linalg.matrix_power(mx.np.array([[1, 1], [0, 1]]), 3)
array([[1., 3.],
       [0., 1.]])""",
    "matrix_rank": """How many rows of a matrix are independent.
A: ndarray (..., m, n), or a vector
tol: singular values up to this count as zero; default by the dtype
hermitian: the matrices are symmetric
rtol: as tol, relative to the largest singular value
-> An int, or an ndarray of them.
>>> int(mx.np.linalg.matrix_rank(mx.np.array([[1, 2], [2, 4]])))
1""",
    "multi_dot": """The product of several matrices, in the order that takes the fewest multiplications.
arrays: sequence of matrices; the first and the last may be vectors
out: ndarray to write to
-> An ndarray.
! ValueError: there are fewer than two.
>>> a = mx.np.array([[1, 1], [0, 1]])
>>> mx.np.linalg.multi_dot([a, a, mx.np.array([1, 2])])
array([5., 2.])""",
    "qr": """A matrix as the product of one with orthogonal columns and an upper triangular one.
a: ndarray (..., m, n)
mode: "reduced" (min(m, n) columns), "complete" (m columns), "r" (only the triangular one) or "raw"
-> A pair of ndarrays, or one.
>>> q, r = mx.np.linalg.qr(mx.np.array([[0, 2], [3, 0]]))
>>> mx.np.dot(q, r)
array([[0., 2.],
       [3., 0.]])""",
    # ------------------------------------------------------------ of the package numpy_financial
    "mirr": f"The modified internal rate of return of payments.\n{_FINANCIAL}",
    "npv": f"The present value of payments at an interest rate.\n{_FINANCIAL}",
    "pmt": f"The constant payment that pays a loan off.\n{_FINANCIAL}",
    "ppmt": f"The part of a payment that pays the loan itself off.\n{_FINANCIAL}",
    "pv": f"The present value of constant payments.\n{_FINANCIAL}",
    "rate": f"The interest rate of constant payments.\n{_FINANCIAL}",
}


def document(name: str, who: str = "NumPy") -> str:
    """The docstring of a function that NumPy, or another package, computes."""
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
    told = ["\n    ".join([f"{title}:", *rows]) for title, rows in sections.items() if rows]
    return "\n\n".join([first, _HOST.format(who), *told])
