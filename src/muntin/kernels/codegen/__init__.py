"""From Python functions to a cached module of native code.

The source of an aggregate and of the loops is written into one module, which Numba compiles.
"""
