"""One lane per family of windows: which slices rows go to, and which windows are due.

The base class and what all lanes share is in `muntin.slicing.lane`.
"""
