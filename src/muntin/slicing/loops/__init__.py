"""Loops over slices and keys, written as plain Python and compiled as one module.

They know where slices begin and which windows are due, and nothing about aggregates.
"""
