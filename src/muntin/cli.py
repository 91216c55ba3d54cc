"""The muntin command."""

import argparse
from collections.abc import Sequence

from muntin._version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    >>> main(["--version"])
    Traceback (most recent call last):
    ...
    SystemExit: 0
    """
    parser = argparse.ArgumentParser(
        prog="muntin",
        description="Sliding-window aggregation for PySpark and Python.",
        epilog="example: muntin demo",
    )
    parser.add_argument("--version", action="version", version=f"muntin {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="show a window sliding, and what that costs")
    parser.parse_args(arguments)

    from rich.console import Console

    from muntin import demo

    demo.main(Console())
    return 0
