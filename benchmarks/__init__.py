"""Benchmarks: ratios from one run, equality checked first."""

import os

# Polars reads it when it is imported: peers run on one thread, as muntin does.
os.environ["POLARS_MAX_THREADS"] = "1"
