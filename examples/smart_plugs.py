"""Smart plugs: the load of the last 24 hours, every second, for each plug and for all of them.

    python examples/smart_plugs.py                    # a generated stream
    python examples/smart_plugs.py --file sorted.csv  # the stream of the DEBS 2014 Grand Challenge

The challenge asks which houses have many plugs whose load is above that of all plugs, in windows of
an hour and of a day that move on every second. It asks for medians; here loads are compared by their
means, and peaks come along. A reading is in 90,000 windows. It is not copied into each of them: it
goes into one slice of a second, which all windows share.

The file of the challenge is not part of this project. What is generated instead has its columns and
its rhythm: some plugs per household, some households per house, a reading per plug every second, a
little out of order. The numbers are made up.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from rich.console import Console
from rich.table import Table

import muntin as mt

COLUMNS = ["id", "timestamp", "value", "property", "plug_id", "household_id", "house_id"]
LOAD = 1  # a reading of property 1 is a load in watts, one of property 0 is work in kWh
PLUG = ("house_id", "household_id", "plug_id")
BEGIN = 1_377_986_400  # the challenge's stream starts in September 2013
HOUR = 3600

WINDOWS = {"hour": mt.Sliding("1 hour", "1 second"), "day": mt.Sliding("24 hours", "1 second")}
LOADS = {"mean": mt.Mean("value"), "peak": mt.Max("value")}


def generated(houses: int, hours: int) -> Iterator[pa.Table]:
    """Yield the readings of each hour, as they arrive."""
    rng = np.random.default_rng(2014)
    households = [(house, k) for house in range(houses) for k in range(rng.integers(1, 4))]
    plugs = np.array([(*home, plug) for home in households for plug in range(rng.integers(2, 5))])
    usual = rng.gamma(2.0, 40.0, len(plugs))
    for hour in range(hours):
        second = BEGIN + hour * HOUR + np.repeat(np.arange(HOUR), len(plugs))
        which = np.tile(np.arange(len(plugs)), HOUR)
        awake = 1.2 + np.sin(2 * np.pi * (hour - 9) / 24)
        value = np.round(rng.gamma(4.0, usual[which] * awake / 4.0), 3)
        arrival = np.argsort(second + rng.uniform(0, 5, len(second)), kind="stable")
        house, household, plug = plugs[which[arrival]].T
        columns = [second[arrival], value[arrival], plug, household, house]
        yield pa.table(dict(zip(["timestamp", "value", *reversed(PLUG)], columns, strict=True)))


def read(path: str) -> Iterator[pa.Table]:
    """Yield the loads in a file of the challenge, block by block."""
    names = csv.ReadOptions(column_names=COLUMNS, block_size=64 << 20)
    types = csv.ConvertOptions(column_types={"value": pa.float64()})
    with csv.open_csv(path, names, convert_options=types) as blocks:
        for block in blocks:
            yield pa.table(block).filter(pc.field("property") == LOAD)


def main(file: str | None = None, houses: int = 6, hours: int = 26) -> list[dict[str, Any]]:
    """Print how each house does at the end of the stream, and return it."""
    console = Console()
    common = {"time": "at", "windows": WINDOWS, "aggregates": LOADS, "watermark": "10 seconds"}
    by_plug = mt.Query(keys=PLUG, **common).operator()
    of_all = mt.Query(**common).operator()
    plugs = everything = pa.table({})
    with console.status("waiting for readings") as status:
        for batch in read(file) if file else generated(houses, hours):
            rows = batch.append_column("at", batch["timestamp"].cast(pa.timestamp("s")))
            for operator in (by_plug, of_all):
                operator.process(rows)
            results = by_plug.advance(), of_all.advance()
            if all(table.num_rows for table in results):
                plugs, everything = results
            status.update(f"{by_plug.counters.rows:,} readings until {rows['at'][-1]}")
    if not plugs.num_rows:
        raise ValueError("no window was complete: the stream is shorter than its watermark")
    standings = compared(plugs, everything)
    console.print(shown(standings))
    counters = by_plug.counters
    console.print(
        f"{counters.rows:,} readings of {counters.keys} plugs gave {counters.windows_reported:,} "
        f"results. Held are {counters.slices:,} slices, a second of a plug each."
    )
    return standings


def compared(plugs: pa.Table, everything: pa.Table) -> list[dict[str, Any]]:
    """Return, for the last windows, each house's share of plugs above the mean of all plugs."""
    standings = []
    for name in WINDOWS:
        overall = everything.filter(pc.field("window") == name).to_pylist()[-1]
        now = plugs.filter((pc.field("window") == name) & (pc.field("end") == overall["end"]))
        above = pc.greater(now["mean"], overall["mean"]).cast(pa.int8())
        houses = now.append_column("above", above).group_by("house_id")
        asked = [("above", "count"), ("above", "mean"), ("mean", "mean"), ("peak", "max")]
        for row in houses.aggregate(asked).sort_by("house_id").to_pylist():
            standings.append({"window": name, "end": overall["end"], **row})
    return standings


def shown(standings: list[dict[str, Any]]) -> Table:
    """Return the standings as a table."""
    table = Table(title=f"Loads until {standings[-1]['end']}")
    for heading in ("window", "house", "plugs", "above the mean of all", "mean, W", "peak, W"):
        table.add_column(heading, justify="left" if heading == "window" else "right")
    for row in standings:
        share, mean, peak = row["above_mean"], row["mean_mean"], row["peak_max"]
        named = row["window"], str(row["house_id"]), str(row["above_count"])
        table.add_row(*named, f"{share:.0%}", f"{mean:.1f}", f"{peak:.1f}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", help="a CSV file of the DEBS 2014 Grand Challenge")
    parser.add_argument("--houses", type=int, default=6, help="how many to generate")
    parser.add_argument("--hours", type=int, default=26, help="how long to generate")
    main(**vars(parser.parse_args()))
