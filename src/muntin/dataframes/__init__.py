"""Frames: NumPy, Arrow, pandas and Polars, in and out."""
