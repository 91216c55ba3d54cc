"""Kernels: from (algorithm, aggregate, layout) to a cached native function, and loops over arrays."""
