"""Run the benchmarks: `python -m benchmarks`."""

from rich.console import Console

from benchmarks import objects

objects.main(Console())
