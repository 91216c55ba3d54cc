"""Traub et al., EDBT 2019: what a workload does to general stream slicing (section 6.3)."""

from benchmarks.claims.reading import (
    LAST,
    TIE,
    Claim,
    Found,
    Read,
    Reading,
    every,
    left,
    short,
    times,
)
from benchmarks.claims.slicing_techniques import BATCHED, RESULTS, Slices

HOLISTIC = ("Median", "90th percentile")
SIMILAR = 3.0
HASHED = (
    "A batch that is in order is cut where edges lie. As soon as one row is late, every row finds "
    "its slice in a hash table; more late rows add little to that."
)
BEHIND = (
    "The watermark stays as far behind as rows may be late, so that more slices and sessions are "
    "open at each report."
)


def similar(found: Found) -> Reading:
    """Read how far the rates of aggregates that are not holistic lie apart."""
    line = {x: y for x, y in found.line("lazy", "time").items() if x not in HOLISTIC}
    low, high = min(line, key=line.__getitem__), max(line, key=line.__getitem__)
    factor = line[high] / line[low]
    return Reading(f"{high} is {short(factor)} times {low} with lazy slices", factor <= SIMILAR)


def slower_by_count(found: Found) -> Reading:
    """Read whether every aggregate is slower over windows of count."""
    time, count = found.line("lazy", "time"), found.line("lazy", "count")
    ratios = {x: time[x] / count[x] for x in time}
    low, high = min(ratios.values()), max(ratios.values())
    said = f"by a factor of {short(low)} to {short(high)} with lazy slices"
    return Reading(said, low >= 1.0)


def of_sum(who: str, panel: str, *, least: float = 0.0, most: float = 1e9) -> Read:
    """Read an aggregate's rate as a share of that of Sum."""

    def read(found: Found) -> Reading:
        line = found.line("lazy", panel)
        share = line[who] / line["Sum"]
        said = f"{who} has {short(share)} of the rate of Sum (lazy slices, windows of {panel})"
        return Reading(said, least <= share <= most)

    return read


def loses_little(who: str) -> Read:
    """Read whether an aggregate keeps as much of its rate over windows of count as Sum does."""

    def read(found: Found) -> Reading:
        time, count = found.line("lazy", "time"), found.line("lazy", "count")
        mine, total = count[who] / time[who], count["Sum"] / time["Sum"]
        said = f"{who} keeps {short(mine)} of its rate over windows of time, Sum {short(total)}"
        return Reading(said, mine >= total / TIE)

    return read


DISORDER = Slices(
    "Figure 12, section 6.3.1",
    "Rows out of order",
    figure="Figure 12",
    picture="slicing_disorder",
    claims=(
        Claim(
            "Slicing and buckets process rows out of order as fast as rows in order (a).",
            every(left("lazy", 1 / TIE, panel="share"), left("buckets", 1 / TIE, panel="share")),
            HASHED,
        ),
        Claim(
            "Tuple buffers and aggregate trees get slower with more late rows (a).",
            every(
                left("tuple buffer", most=1 / TIE, panel="share"),
                left("aggregate tree", most=1 / TIE, panel="share"),
            ),
            BATCHED,
        ),
        Claim(
            "Slicing, buckets and trees are robust against long delays (b).",
            every(
                *(
                    left(who, 1 / TIE, panel="delay")
                    for who in ("lazy", "buckets", "aggregate tree")
                )
            ),
            BEHIND,
        ),
        Claim(
            "Tuple buffers get slower with longer delays (b).",
            left("tuple buffer", most=1 / TIE, panel="delay"),
            BATCHED,
        ),
    ),
)

AGGREGATES = Slices(
    "Figures 13 and 14, section 6.3.2",
    "Aggregates over windows of time and of count",
    figure="Figure 13",
    picture="slicing_aggregates",
    claims=(
        Claim(
            "Over windows of time all but holistic aggregates have a similar throughput.",
            similar,
            "Std, GeoMean and pairs have more arithmetic in a row than Sum, and compiled loops do "
            "little else.",
        ),
        Claim(
            "Holistic aggregates are much slower.",
            of_sum("Median", "time", most=0.2),
        ),
        Claim(
            "Windows of count are slower, because a late row moves all rows behind it.",
            slower_by_count,
            BATCHED,
        ),
        Claim(
            "Over windows of count, a sum without its inverse is slower than with it.",
            of_sum("Sum without inverse", "count", most=1 / TIE),
            "Slices are settled once per batch, and where more than a few rows moved they are "
            "folded anew, with an inverse or without. The paper's changes a slice for each late "
            "row.",
        ),
        Claim(
            "Max has no inverse and loses little more than what has one.",
            loses_little("Max"),
            "Slices that moved are folded anew for Max, and by the inverse for Sum.",
        ),
        Claim(
            "For the median, slicing is faster than buckets and tuple buffers (Figure 14).",
            every(
                *(
                    times("lazy", who, 1.0, panel="time", at="Median")
                    for who in ("buckets", "tuple buffer")
                )
            ),
            "A median gets through few rows in the time of a run, and long windows are not complete "
            "by its end: what buckets would do for them is not counted.",
        ),
    ),
)

MEASURES = Slices(
    "Figure 16, section 6.3.4",
    "Windows of time and of count",
    figure="Figure 16",
    picture="slicing_measures",
    setting="The tuple buffer of windows of count is 60 lines of NumPy, without keys, updates or "
    "snapshots.",
    claims=(
        Claim(
            "Over windows of time the throughput does not depend on the number of windows.",
            left("lazy", 0.5, panel="time"),
            RESULTS,
        ),
        Claim(
            "Over windows of count it falls with more than 40 windows: slices get shorter than "
            "delays.",
            left("lazy", most=1 / TIE, panel="count"),
            "Rows are shifted between slices once per batch and not for each late row, whatever "
            "the slices' length.",
        ),
        Claim(
            "Slicing is an order of magnitude faster than a tuple buffer with 1,000 windows of "
            "count.",
            times("lazy", "tuple buffer", 10, panel="count", at=LAST),
            BATCHED,
        ),
    ),
)
