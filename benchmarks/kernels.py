"""Figure 7: how long a kernel takes to compile, and to load when it was compiled before.

Every kernel has a cache folder of its own. A first process compiles it (Numba is imported before the
clock starts). A second process loads another kernel first, so that what Numba does once per process is
not counted, and then this one.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np
from tests import catalogue

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target

QUICK = ("Max", "Sum", "Std", "Median")
TWO_COLUMNS = ("ArgMin", "ArgMax", "Cov", "Corr", "Regression", "Vwap")
TWO_COLUMNS += ("DecayedSum", "TimeWeightedMean", "Rate")
ASKED = {"Ewm": {"alpha": 0.5}, "DecayedSum": {"halflife": 5}}
"""What some aggregates must be told."""
WHOLE = ("BitAnd", "BitOr")
"""Aggregates of whole numbers only."""
COLD, WARM = Target(3000, at_most=True), Target(50, at_most=True)

PROGRAM = f"""
import sys, time
import numba, numpy as np, muntin as mt
import muntin.dataframes.rolling_batch

def run(name, window):
    x = np.arange(100) if name in {WHOLE} else np.arange(100.0)
    values = (x, np.arange(100)) if name in {TWO_COLUMNS} else x
    options = {{"on": np.arange(100)}} if window == "times" else {{}}
    aggregate = mt.AGGREGATES[name](**{ASKED}.get(name, {{}}))
    mt.rolling(values, 3, aggregate, min_periods=1, threads=1, **options)

name, window, state = sys.argv[1:]
first = "Last" if name != "Last" else "First"
if state == "warm":
    run(first, "rows")
began = time.perf_counter()
run(name, window)
print(time.perf_counter() - began)
if state == "cold":
    run(first, "rows")
"""


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    names = QUICK if scale.quick else built_in()
    return [
        (f"{name} over {window}", lambda name=name, window=window: cold_and_warm(name, window))
        for name in names
        for window in ("rows", "times")
    ]


def built_in() -> list[str]:
    """Return the names of the aggregates that have a kernel."""
    x = np.arange(8.0)
    values = {name: (x, np.arange(8)) if name in TWO_COLUMNS else x for name in mt.AGGREGATES}
    values |= dict.fromkeys(WHOLE, np.arange(8))
    made = {name: catalogue.make(name)[0] for name in mt.AGGREGATES}
    return [
        name
        for name, aggregate in made.items()
        if (aggregate.kernel or aggregate.rank)
        and mt.rolling_plan(values[name], 2, aggregate, min_periods=1).compiled
    ]


def cold_and_warm(name: str, window: str) -> Findings:
    """Yield the seconds to compile a kernel and to load it."""
    with tempfile.TemporaryDirectory() as folder:
        for state, target in (("cold", COLD), ("warm", WARM)):
            seconds = run(folder, name, window, state)
            what = "compile" if state == "cold" else "load"
            yield Finding(
                7, f"kernel {name} over {window}", f"{what}, {state}", 1e3 * seconds, "ms",
                value=1e3 * seconds, target=target,
            )  # fmt: skip


def run(folder: str, name: str, window: str, state: str) -> float:
    """Run the program in a process with this cache folder and return the seconds it printed."""
    command = [sys.executable, "-c", PROGRAM, name, window, state]
    environment = {**os.environ, "MUNTIN_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)
