# The package of the wrapper's modules; at run time relay/_native.pyx is it.
