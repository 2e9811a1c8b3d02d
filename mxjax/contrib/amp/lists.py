"""Which operators run in which precision under mixed precision.

`TARGET`: matrix products and convolutions, where 16 bits are fast and safe. `FP32`: operators that lose too much in 16
bits. `WIDEST`: operators that need all inputs in one dtype and take the widest. Operators in no list take what comes.
"""

TARGET = ["Convolution", "Deconvolution", "FullyConnected", "RNN", "dot", "batch_dot", "_linalg_gemm", "_linalg_gemm2"]

FP32 = """exp expm1 log log10 log2 log1p gamma gammaln erfinv rsqrt rcbrt reciprocal tan arccos arcsin cosh sinh arccosh
arctanh broadcast_power _power _power_scalar _rpower_scalar _rdiv_scalar softmax log_softmax softmin SoftmaxActivation
SoftmaxOutput softmax_cross_entropy CTCLoss sum mean prod nansum nanprod norm cumsum smooth_l1 InstanceNorm LayerNorm
GroupNorm L2Normalization LRN LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput SVMOutput
make_loss MakeLoss""".split()

CONDITIONAL_FP32 = [("Activation", "act_type", ["softrelu"]), ("LeakyReLU", "act_type", ["elu", "selu"])]

WIDEST = """elemwise_add elemwise_sub elemwise_mul elemwise_div broadcast_add broadcast_sub broadcast_mul broadcast_div
broadcast_mod broadcast_maximum broadcast_minimum broadcast_hypot broadcast_equal broadcast_not_equal broadcast_greater
broadcast_greater_equal broadcast_lesser broadcast_lesser_equal add_n Concat stack where _maximum _minimum
_hypot""".split()
