"""Stop calls of operators and rolling windows at random points: `python -m scripts.interrupt`.

`--seed` is where the scripts begin and `--count` how many of them there are; each is stopped a few times
for every kind of windows and of fault. What the tests do (`tests/interrupting.py`), for longer.
"""

import argparse
from collections import Counter

from tests.interrupting import FAULTS, KINDS, interrupt, interrupt_rolling

STOPPED = 6


def main() -> None:
    """Stop as many scripts as are asked for, and print what became of the calls."""
    parser = argparse.ArgumentParser(prog="python -m scripts.interrupt", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10, help="how many seeds")
    arguments = parser.parse_args()
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        for what in FAULTS:
            for kind in KINDS:
                seen.update({(what, how): n for how, n in run(seed, kind, what).items()})
            rolled = interrupt_rolling(seed, what, STOPPED)
            seen.update({(f"rolling, {what}", how): n for how, n in rolled.items()})
    for (what, how), times in sorted(seen.items()):
        print(f"{what:24}{how:10}{times:8}")


def run(seed: int, kind: str, what: str) -> dict[str, int]:
    """Stop one script; say which it was if something is wrong."""
    try:
        return interrupt(seed, kind, what, STOPPED)
    except BaseException:
        print(f"seed {seed}, windows {kind!r}, fault {what!r}:")
        raise


if __name__ == "__main__":
    main()
