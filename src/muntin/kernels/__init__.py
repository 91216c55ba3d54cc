"""Kernels: loops over arrays and slices, compiled to native functions per aggregate and layout."""
