"""Loops over rows and partials, written as plain Python and compiled per aggregate.

They call `lift_at`, `combine`, `load`, `store` and `emit`, which `codegen.layout` writes for a layout.
"""
