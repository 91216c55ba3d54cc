"""The muntin command: arguments in, exit codes out, errors on one line."""

import argparse
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin._version import __version__

if TYPE_CHECKING:
    from rich.console import Console

FINE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = """\
exit codes:
  0    fine; also where Ctrl-C ends a stream
  1    failed
  2    wrong usage, or something wrong in the job file
  130  interrupted before the end"""
JOB = """\
a job file:
  [source]
  format = "json"
  path = "readings"
  schema = "at timestamp, plug string, watts double"
  stream = true

  [query]
  time = "at"
  keys = ["plug"]
  watermark = "10 seconds"

  [windows]
  hour = 'Sliding("1 hour", every="1 minute")'
  active = 'Session("5 minutes")'

  [aggregates]
  peak = 'Max("watts")'
  usual = 'Median("watts")'

  [sink]
  format = "sqlite"
  path = "power.db"
  table = "plugs"
  checkpoint = "checkpoints/plugs"
"""
SERVE = """\
what is served, in a job file with a [query], its [windows] and its [aggregates]:
  [serve]
  store = "redis://localhost:6379"
  name = "query"
  keys = 1000
  body = 1_000_000
"""
PLAIN_WIDTH = 120  # of what is printed to a file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    >>> main(["--version"])
    Traceback (most recent call last):
    ...
    SystemExit: 0
    """
    asked = _parser().parse_args(arguments)
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    try:
        code: int = asked.command(asked, console)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # whatever it is, a person gets one line
        return _failed(error, asked.verbose)
    return code


def _failed(error: Exception, verbose: bool) -> int:
    from muntin.jobs import JobError
    from muntin.jobs.errors import one_line
    from muntin.jobs.safe import masked, printable

    if verbose:
        whole = "".join(traceback.format_exception(error))
        print(printable(masked(whole), keep="\n\t"), file=sys.stderr, end="")
    in_the_file = isinstance(error, JobError)
    more = "" if verbose or in_the_file else " (--verbose shows more)"
    print(f"muntin: {printable(masked(one_line(error)))}{more}", file=sys.stderr)
    return WRONG_USAGE if in_the_file else FAILED


def _run(asked: argparse.Namespace, console: "Console") -> int:
    from muntin.jobs import read_job
    from muntin.jobs.run import run_job

    job, page = read_job(asked.job), _page(asked)
    run_job(job, console, once=asked.once, page=page, verbose=asked.verbose)
    return FINE


def _page(asked: argparse.Namespace) -> dict[str, Any] | None:
    """Return where the live page is served; None if there is none."""
    from muntin.jobs import JobError

    given = _place(asked)
    if not asked.watch:
        if given or asked.token_file:
            raise JobError("--port, --host and --token-file are for the live page: add --watch")
        return None
    return _listening(asked, given)


def _listening(asked: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    """Return a host and a port with the token that they need."""
    from muntin.jobs import JobError
    from muntin.watch.access import HOST, check_token

    try:
        if asked.token_file:
            given["token"] = asked.token_file.read_text(encoding="utf-8").strip()
        check_token(given.get("host", HOST), given.get("token"))
    except (OSError, ValueError) as error:
        raise JobError(f"--token-file {asked.token_file or 'is missing'}: {error}") from error
    return given


def _place(asked: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in ("port", "host") if getattr(asked, name)}


def _serve(asked: argparse.Namespace, console: "Console") -> int:
    from muntin.jobs.serving import serve_job

    serve_job(asked.job, console, _listening(asked, _place(asked)))
    return FINE


def _explain(asked: argparse.Namespace, console: "Console") -> int:
    from muntin.jobs import read_job
    from muntin.jobs.safe import printable

    console.out(printable(read_job(asked.job).explain(), keep="\n"), highlight=False)
    return FINE


def _bench(asked: argparse.Namespace, console: "Console") -> int:
    del console
    tree = Path(__file__).parents[2]
    if not (tree / "benchmarks" / "__main__.py").exists():
        raise FileNotFoundError(
            "the benchmarks are in muntin's source tree and not in the wheel: get the source, and "
            "run make bench there"
        )
    options = {"--quick": asked.quick, "--check": asked.check}
    arguments = [*asked.what, *(option for option, given in options.items() if given)]
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=tree).returncode


def _demo(asked: argparse.Namespace, console: "Console") -> int:
    del asked
    from muntin import demo

    demo.main(console)
    return FINE


def _doctor(asked: argparse.Namespace, console: "Console") -> int:
    from muntin import doctor

    return FINE if doctor.main(console, start=asked.start, verbose=asked.verbose) else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muntin",
        description="Sliding-window aggregation for PySpark and Python.",
        epilog=f"examples:\n  muntin demo\n  muntin run power.toml\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"muntin {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    _add_jobs(commands)
    _add(commands, "demo", _demo, "show windows sliding over real data, on Spark", "")
    bench = _add(
        commands, "bench", _bench, "measure on this machine",
        "rolling --quick", "rolling --check", "papers",
    )  # fmt: skip
    bench.add_argument("what", nargs="*", help="what to measure; everything if nothing is named")
    bench.add_argument("--quick", action="store_true", help="smaller inputs and fewer repeats")
    bench.add_argument(
        "--check", action="store_true", help="compare with the last results and say what got slower"
    )
    doctor = _add(
        commands, "doctor", _doctor, "say what is installed, and what to do about the rest",
        "", "--start",
    )  # fmt: skip
    doctor.add_argument("--start", action="store_true", help="start Spark, too")
    return parser


def _add_jobs(commands: Any) -> None:
    run = _add(
        commands, "run", _run, "run a job on Spark: over finished data, or a stream until Ctrl-C",
        "power.toml", "power.toml --once", "power.toml --watch",
    )  # fmt: skip
    watch = _add(
        commands, "watch", _run, "run a job beside a live page of its windows: run --watch",
        "power.toml", "power.toml --once",
    )  # fmt: skip
    explain = _add(
        commands, "explain", _explain, "say what a job reads, how its query runs and why; no Spark",
        "power.toml",
    )  # fmt: skip
    for command in (run, watch, explain):
        command.add_argument(
            "job", type=Path, metavar="job.toml", help="what to read, ask and write"
        )
    run.epilog = f"{JOB}\n{run.epilog}"
    for command in (run, watch):
        command.add_argument(
            "--once", action="store_true", help="end a stream when it has taken what is there"
        )
        _add_place(command, "the live page")
    run.add_argument("--watch", action="store_true", help="show a live page of the windows")
    watch.set_defaults(watch=True)
    serve = _add(
        commands, "serve", _serve, "answer lookups in a published query over HTTP, until Ctrl-C",
        "power.toml", "power.toml --host 0.0.0.0 --port 8080 --token-file token",
    )  # fmt: skip
    serve.add_argument("job", type=Path, metavar="job.toml", help="the query, and its store")
    serve.epilog = f"{SERVE}\n{serve.epilog}"
    _add_place(serve, "the server")


def _add_place(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--port", type=int, help=f"where {what} is; else one that is free")
    command.add_argument(
        "--host",
        help="what it listens on, such as 0.0.0.0; else only this machine reaches it",
    )
    command.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the password of {what}, needed with --host; it is sent as it is",
    )


def _add(
    commands: Any,
    name: str,
    run: "Callable[[argparse.Namespace, Console], int]",
    what: str,
    *examples: str,
) -> argparse.ArgumentParser:
    lines = "".join(f"\n  {f'muntin {name} {example}'.rstrip()}" for example in examples)
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"examples:{lines}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--verbose", action="store_true", help="print whole errors, and what Spark logs"
    )
    command.set_defaults(command=run)
    return command
