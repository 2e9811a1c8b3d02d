"""What type checkers are to find: each line with `wrong` is one mistake."""

import mxjax as mx

a = mx.nd.ones((2, 2))
b = mx.nd.Convolution(a, a, kernal=(2, 2), num_filter=1)  # wrong: kernel
c = mx.nd.Activation(a, act_type="rellu")  # wrong: no such activation
d = a + "text"  # wrong
e = mx.nd.no_such_operator(a)  # wrong
f = mx.gluon.nn.Dense()  # wrong: units
g = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hiden=3)  # wrong: num_hidden
h = mx.gluon.Trainer()  # wrong: parameters, optimizer
i = a.sum(axes=1)  # wrong: axis
