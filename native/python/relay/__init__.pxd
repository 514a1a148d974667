# The package, as Cython has to know it: names of modules begin with it.
