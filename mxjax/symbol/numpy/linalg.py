"""`mx.sym.np.linalg`: linear algebra on the last two axes."""

