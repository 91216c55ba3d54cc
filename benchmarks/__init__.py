"""Benchmarks: ratios from one run, equality checked first."""
