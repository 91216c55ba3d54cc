"""Loops over rows and partials, written as plain Python and compiled per aggregate.

They call `lift_at`, `combine`, `load`, `store` and `emit`. `object_partials` has these for objects;
for numbers `codegen.layout` writes them.
"""
