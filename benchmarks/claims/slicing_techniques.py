"""Traub et al., EDBT 2019: general stream slicing, and its techniques compared (section 6.2)."""

import math
from functools import partial

from benchmarks.claims.reading import (
    LAST,
    TIE,
    Claim,
    Found,
    Read,
    Reading,
    Section,
    at_most,
    every,
    left,
    level,
    power,
    short,
    times,
)

FIXED = (
    "An advance makes a table of its results, at a fixed cost of some tenths of a millisecond "
    "that is the same for all plans and more than merging thousands of slices takes."
)
BATCHED = (
    "The paper's takes rows one by one. Here a batch of 64 k rows is sorted, inserted and folded "
    "by compiled loops at once, which helps the techniques that keep rows most."
)
RESULTS = (
    "Every window that ends is a row of a table of results. With 1,000 windows of 1 to 20 s there "
    "are about 160 of them for each second of the stream, which has 2,000 rows."
)
Slices = partial(Section, source="slicing_plots")


def median_beside_sum(who: str, least: float = 0.0, most: float = math.inf) -> Read:
    """Read how much longer the median takes than the sum, at the last x of both."""

    def read(found: Found) -> Reading:
        total, median = found.line(who, "Sum"), found.line(who, "Median")
        x = max(set(total) & set(median))
        ratio = median[x] / total[x]
        said = f"{who} takes {short(ratio)} times as long for the median at {short(x)}"
        return Reading(said, least <= ratio <= most)

    return read


WINDOWS = Slices(
    "Figure 8, section 6.2.1",
    "Concurrent windows, in order",
    figure="Figure 8",
    picture="slicing_windows",
    claims=(
        Claim(
            "Slicing scales to many concurrent windows.",
            every(left("lazy", 0.5), left("eager", 0.5)),
            RESULTS,
        ),
        Claim(
            "Slicing is orders of magnitude faster than buckets with many windows.",
            times("lazy", "buckets", 10, at=LAST),
            BATCHED,
        ),
        Claim(
            "Slicing is orders of magnitude faster than a tuple buffer with many windows.",
            times("lazy", "tuple buffer", 10, at=LAST),
            BATCHED,
        ),
        Claim(
            "An aggregate tree over rows is orders of magnitude slower than slicing.",
            times("lazy", "aggregate tree", 10),
            BATCHED,
        ),
    ),
)

CONSTRAINED = Slices(
    "Figure 9, section 6.2.2",
    "With a session window, and 20 % of the rows up to 2 s late",
    figure="Figure 9",
    picture="slicing_constrained",
    claims=(
        Claim(
            "Slicing keeps an almost constant throughput as windows are added.",
            every(left("lazy", 0.5), left("eager", 0.5)),
            RESULTS,
        ),
        Claim(
            "Lazy slicing has the highest throughput, eager slicing slightly less.",
            times("lazy", "eager", 1 / TIE),
            "Late rows of a batch change each slice, and the tree over slices, once.",
        ),
        Claim(
            "Slicing is an order of magnitude faster than buckets with many windows.",
            times("lazy", "buckets", 10, at=LAST),
            BATCHED,
        ),
        Claim(
            "Slicing is an order of magnitude faster than a tuple buffer.",
            times("lazy", "tuple buffer", 10, at=LAST),
            BATCHED,
        ),
        Claim(
            "An aggregate tree over rows hardly copes: late rows are inserted at its leaves.",
            times("lazy", "aggregate tree", 10),
            BATCHED,
        ),
    ),
)

MEMORY = Slices(
    "Figure 10, section 6.2.3",
    "Memory for what late rows may still change",
    figure="Figure 10",
    picture="slicing_memory",
    setting="Buckets and trees of windows of count are not drawn: their plans have slices there.",
    claims=(
        Claim(
            "For windows of time, slicing and buckets need memory in proportion to slices (a) ...",
            every(
                power("lazy", 0.6, 1.2, panel="slices, time"),
                power("buckets", 0.6, 1.2, panel="slices, time"),
            ),
            "Buckets of long windows are there whatever the number of slices, and a run has room "
            "to grow.",
        ),
        Claim(
            "... whatever the number of rows (b).",
            every(
                level("lazy", TIE, panel="rows, time"), level("buckets", TIE, panel="rows, time")
            ),
            "Runs have room to grow, up to twice what is needed.",
        ),
        Claim(
            "Tuple buffers and aggregate trees need memory in proportion to rows.",
            every(
                power("tuple buffer", 0.8, 1.1, panel="rows, time"),
                power("aggregate tree", 0.8, 1.1, panel="rows, time"),
            ),
            "Runs have room to grow, up to twice what is needed.",
        ),
        Claim(
            "For windows of count all keep their rows, which dominate the memory (d).",
            every(
                power("lazy", 0.5, 1.2, panel="rows, count"),
                power("tuple buffer", 0.8, 1.1, panel="rows, count"),
            ),
            "With few rows, slices are more than the rows.",
        ),
    ),
)

LATENCY = Slices(
    "Figure 11, section 6.2.4",
    "Latency of the last step",
    figure="Figure 11",
    picture="slicing_latency",
    claims=(
        Claim(
            "Lazy slicing takes up to 1 ms for the sum of 100,000 slices.",
            at_most("lazy", TIE, "ms", panel="Sum"),
            FIXED,
        ),
        Claim(
            "Eager slicing takes less than 5 microseconds.",
            at_most("eager", 0.005, "ms", panel="Sum"),
            FIXED,
        ),
        Claim(
            "Buckets have the lowest latency: their results are there.",
            times("eager", "buckets", 1.0, panel="Sum", at=LAST),
            FIXED,
        ),
        Claim(
            "Eager slicing has a lower latency than lazy slicing with many slices.",
            times("lazy", "eager", 1.0, panel="Sum", at=LAST),
            FIXED,
        ),
        Claim(
            "Slices take longer to merge for the median than for the sum.",
            median_beside_sum("lazy", least=TIE),
            FIXED,
        ),
        Claim(
            "Buckets take no longer for the median.",
            median_beside_sum("buckets", most=TIE),
            "Medians are objects of Python here, which a report lowers one by one.",
        ),
    ),
)
