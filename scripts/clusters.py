"""What clusters of three sizes hold, from the rates that `muntin bench scale` has kept."""

from dataclasses import dataclass
from typing import Any

from scripts.measured import kept, machine

NONE = "No result is kept. `muntin bench scale` measures your machine.\n"
HOUR, STEP = 3600, 300
"""Seconds of a window, and from one to the next."""
BUSY = 0.5
"""The share of a core's time that muntin may have; the rest is Spark's, and room for bursts."""
TRIGGER = 10
COPIES = 1 << 30
"""Bytes of state for which a worker keeps copies (`muntin/spark/shard.py`)."""
STORED = 3
"""The store with its log has up to so many times the bytes of its blocks."""
Rates = dict[str, float]


@dataclass(frozen=True)
class Size:
    """A stream: rows a second, and keys that are active at a time."""

    rows: float
    keys: float

    @property
    def slices(self) -> float:
        """The slices of a key: as many as windows look at, or as it has rows in that time."""
        return min(HOUR / STEP + 1, max(1.0, self.rows / self.keys * (HOUR + STEP)))

    @property
    def results(self) -> float:
        """Results a second: one for each key and step."""
        return self.keys / STEP

    def work(self, rates: Rates) -> float:
        """Return the seconds of work in a second."""
        row = rates["packing a row"] + rates["taking a row"]
        return (self.rows * row + self.results * rates["reporting a result"]) / 1e6

    def state(self, rates: Rates, place: str = "memory") -> float:
        """Return the bytes of the state, in memory or in the blocks of the store."""
        return self.keys * (rates[f"a key in {place}"] + self.slices * rates[f"a slice in {place}"])

    def cores(self, rates: Rates) -> tuple[int, str]:
        """Return how many cores are needed, and for what.

        >>> rates = {"packing a row": 1.0, "taking a row": 1.0, "reporting a result": 0.0,
        ...          "a key in memory": 0.0, "a slice in memory": 1024.0}
        >>> Size(1e6, 1e3).cores(rates), Size(1e3, 1e6).cores(rates)
        ((4, 'work'), (4, 'state'))
        """
        work, state = self.work(rates) / BUSY, self.state(rates) / COPIES
        return -int(-max(work, state) // 1), "work" if work >= state else "state"


SIZES = (Size(1e5, 1e6), Size(1e6, 1e8), Size(1e7, 1e9))


def simulated() -> str:
    """Return what rows cost with more and more shards."""
    run = kept().get("scale")
    if run is None:
        return NONE
    lines = [machine(run), "", "| shards, rows and keys | cost of a row | beside the fewest |"]
    lines.append("|---|---|---|")
    for row in run["results"]:
        if row["ratio"]:
            lines.append(f"| {row['case']} | {row['measured']:.1f} us | {row['value']:.2f} |")
    combines = [row["measured"] for row in run["results"] if row["unit"] == "combines"]
    told = " to ".join(f"{n:.2f}" for n in sorted({min(combines), max(combines)}))
    return "\n".join([*lines, "", f"Combines for each row: {told}.", ""])


def clusters() -> str:
    """Return the rates, and what follows from them for three sizes."""
    run = kept().get("scale")
    if run is None:
        return NONE
    found = [row for row in run["results"] if row["case"].startswith("rates")]
    lines = [machine(run), "", "| what | measured |", "|---|---|"]
    lines += [f"| {row['who']} | {row['measured']:,.2f} {row['unit']} |" for row in found]
    rates = {row["who"]: row["measured"] for row in found}
    columns = [column(size, rates) for size in SIZES]
    names = [*columns[0]]
    lines += ["", f"| | {' | '.join(c[names[0]] for c in columns)} |", "|---" * 4 + "|"]
    lines += [f"| {name} | {' | '.join(c[name] for c in columns)} |" for name in names[1:]]
    return "\n".join(lines) + "\n"


def column(size: Size, rates: Rates) -> dict[str, Any]:
    """Return what a size needs, in words."""
    cores, why = size.cores(rates)
    stored = STORED * size.state(rates, "the store")
    recovery = stored / cores / (rates["recovering"] * 1e6)
    fixed = rates["a shard without rows"] / 1e6 / TRIGGER
    return {
        "": f"{size.rows:,.0f} rows/s, {size.keys:,.0f} keys",
        "slices of a key": f"{size.slices:.1f}",
        "results a second": f"{size.results:,.0f}",
        "work": f"{size.work(rates):,.1f} cores busy",
        "state in memory": f"{size.state(rates) / 1e9:,.1f} GB",
        "store": f"up to {stored / 1e9:,.1f} GB",
        "**cores**": f"**{cores:,}**, for its {why}",
        "network, rows to shards": f"{size.rows * rates['a row on the network'] * 8 / 1e9:,.2f} Gbit/s",
        "recovery of a core's shards": f"up to {recovery:,.0f} s",
        "a shard, if nothing comes": f"{100 * fixed:.2g} % of a core",
    }
