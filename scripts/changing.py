"""Random queries that change while they run, compared with the definition of what they may report.

    python -m scripts.changing --seed 1 --count 300
    python -m scripts.changing --seed 1 --count 300 --shards 3

Windows, aggregates and lateness come and go, with restarts and failing calls in between, on an operator
or on shards whose copies are lost. A case that fails is made as small as it gets, and printed.
"""

import argparse
import traceback
from dataclasses import replace

from tests.changing_cases import CHANGES, made_case
from tests.changing_runs import run_operator, run_shards


def failure(case):
    """Return the error of a case, or None."""
    try:
        (run_shards if case.shards else run_operator)(case)
    except Exception as error:
        return error
    return None


def place(error):
    """Return what kind of error it is, and which function raised it."""
    return type(error), error and traceback.extract_tb(error.__traceback__)[-1].name


def smaller(case):
    """Yield cases that lack a little of a case."""
    steps = case.steps
    for size in (len(steps) // 2, len(steps) // 4, 4, 2, 1):
        for at in range(0, len(steps), max(size, 1)):
            yield replace(case, steps=steps[:at] + steps[at + size :]) if size else case
    for i, (kind, *given) in enumerate(steps):
        if kind in ("change", "reopen"):
            fewer = [given[0][:j] + given[0][j + 1 :] for j in range(len(given[0]))]
            others = [(kind, less) for less in fewer] + [("change", given[0])]
            for other in others:
                if other != steps[i]:
                    yield replace(case, steps=(*steps[:i], other, *steps[i + 1 :]))
    for part in ("windows", "aggregates"):
        held = getattr(case, part)
        for name in held if len(held) > 1 else ():
            yield replace(case, **{part: {n: held[n] for n in held if n != name}})
    for plain in (
        {"plan": "auto"},
        {"ordered": False},
        {"emit": "every"},
        {"lateness": 0},
        {"forgets": False},
        {"idle": None},
    ):
        if any(getattr(case, name) != value for name, value in plain.items()):
            yield replace(case, **plain)


def smallest(case, found):
    """Return a case that fails in the same way, of which nothing can be left out."""
    going = True
    while going:
        going = False
        for less in smaller(case):
            if (
                less != case
                and len(less.steps) <= len(case.steps)
                and place(failure(less)) == found
            ):
                case, going = less, True
                break
    return case


def spelled(case):
    """Return a case as lines that say what it is."""
    lines = [
        f"windows={case.windows}, aggregates={case.aggregates}, over={case.over}",
        f"lateness={case.lateness}, ordered={case.ordered}, emit={case.emit!r}, plan={case.plan!r}, "
        f"shards={case.shards}, forgets={case.forgets}, idle={case.idle}",
    ]
    for kind, *given in case.steps:
        if kind == "row":
            lines.append("  " + ", ".join(f"{name}={value!r}" for name, value in given[0].items()))
        else:
            lines.append(f"  {kind} {' '.join(map(str, given))}")
    return "\n".join(lines)


def main():
    """Try what was asked for, and print how much that was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--shards", type=int, default=0, help="0 for an operator")
    parser.add_argument("--only", nargs="*", choices=CHANGES, default=CHANGES)
    parser.add_argument("--go-on", action="store_true", help="print what fails, and continue")
    parser.add_argument("--as-it-is", action="store_true", help="do not look for a smaller case")
    asked = parser.parse_args()
    failed = 0
    for number in range(asked.seed, asked.seed + asked.count):
        case = made_case(number, tuple(asked.only), asked.shards)
        error = failure(case)
        if error is None:
            continue
        failed += 1
        print(f"failed: --seed {number} --count 1 --shards {asked.shards}")
        if not asked.as_it_is:
            case = smallest(case, place(error))
            error = failure(case)
        print(spelled(case))
        traceback.print_exception(error, limit=-3)
        if not asked.go_on:
            break
    print(f"{asked.count} runs from seed {asked.seed} on: {failed} failed")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
