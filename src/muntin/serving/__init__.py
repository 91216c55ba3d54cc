"""Queries whose slices are published in a store, for lookups in other processes."""
