"""Villalba, Berral and Carrera, TPDS 2019: the Monoid Tree Aggregator."""

from functools import partial

from benchmarks.claims.reading import (
    FIRST,
    LAST,
    TIE,
    Claim,
    Found,
    Paper,
    Read,
    Reading,
    Section,
    every,
    level,
    power,
    short,
    times,
)

ROCKS, REDIS = "Amta in RocksDB", "Amta in Redis"
TOGETHER, THROUGH, APART = "one window", "a line through it", "a window for each"
STEPS = (
    "Interpreted, statements count: the head of every level is an object of Python for Amta, and "
    "DABA Lite has six pointers."
)
MISSES = (
    "Values that leave are not at hand: blocks of them are fetched from the store, and every "
    "command of a client is made in Python."
)
BUFFERS = (
    "A store has buffers of its own in the process, some megabytes whatever the window's size, "
    "and a small window is smaller than they are."
)
Trees = partial(Section, source="store_plots")


def more(a: str, b: str, most: float) -> Read:
    """Read how many microseconds more a takes than b in the largest window."""

    def read(found: Found) -> Reading:
        ours, theirs = found.line(a), found.line(b)
        n = max(set(ours) & set(theirs))
        extra = ours[n] - theirs[n]
        return Reading(f"{a} takes {short(extra)} microseconds more at {short(n)}", extra <= most)

    return read


def below_naive(found: Found) -> Reading:
    """Read whether no bulk eviction in a store takes as long as folding the window anew."""
    naive = min(found.line("Recalc").values())
    slowest = max(max(found.line(who).values()) for who in (ROCKS, REDIS))
    said = f"the slowest eviction in a store takes {short(slowest)} microseconds, Recalc {short(naive)}"
    return Reading(said, slowest < naive)


def on_a_line(found: Found) -> Reading:
    """Read whether the times of one window lie near a line through them."""
    ours, line = found.line(TOGETHER), found.line(THROUGH)
    furthest = max(abs(ours[k] / line[k] - 1) for k in ours if k > 1)
    return Reading(f"{TOGETHER} is within {furthest:.0%} of {THROUGH}", furthest <= 1 - 1 / TIE)


CONSTANT = Trees(
    "Figure 6, experiment 1",
    "Windows of constant size",
    figure="Figure 6",
    picture="store_latency",
    claims=(
        Claim(
            "AMTA and DABA take the same time at every size.",
            every(level("Amta", 2.0), level("DabaLite", 2.0)),
            "The objects of a large window no longer fit into the processor's cache.",
        ),
        Claim(
            "Log MTA grows with log n.",
            power("LogMta", 0.0, 0.35),
            "The smallest windows have one level or two.",
        ),
        Claim(
            "The naive window is fastest while it is tiny ...",
            times("Amta", "Recalc", 1.0, at=FIRST),
            STEPS,
        ),
        Claim("... and soon the slowest.", times("Recalc", "Amta", 10, at=LAST), STEPS),
        Claim(
            "AMTA in memory is the fastest of all from 2^9 values on.",
            times("DabaLite", "Amta", 1.0, at=LAST),
            STEPS,
        ),
        Claim(
            "Keeping the window in a store costs about a microsecond more (RocksDB).",
            more(ROCKS, "Amta", TIE),
            MISSES,
        ),
        Claim(
            "Keeping the window in a store costs about a microsecond more (Redis, over loopback).",
            more(REDIS, "Amta", TIE),
            MISSES,
        ),
    ),
)

BULK = Trees(
    "Figure 7, experiment 2",
    "Bulk eviction",
    figure="Figure 7",
    picture="store_bulk_eviction",
    claims=(
        Claim(
            "The naive window takes the same time whatever leaves.",
            level("Recalc", 2.0),
            "What is left to fold is less, the more has left.",
        ),
        Claim(
            "DABA takes time in proportion to what leaves.",
            power("DabaLite", 0.6, 1.2),
            "The smallest evictions have a fixed cost.",
        ),
        Claim(
            "MTA grows with the logarithm of what leaves.",
            every(power("Amta", -0.1, 0.35), power("LogMta", -0.1, 0.35)),
            "Memory of levels that are dropped is freed in time that grows with it.",
        ),
        Claim(
            "Evicting most of a large window is orders of magnitude faster with AMTA than with "
            "DABA.",
            times("DabaLite", "Amta", 100, at=LAST),
            "The window of a quick run is small.",
        ),
        Claim(
            "Log MTA evicts faster than AMTA.",
            times("Amta", "LogMta", 1.0),
            "Counted: both take one combine for a query. An eviction of Log MTA takes about log n "
            "combines whatever leaves; Amta takes none for one value, and up to 2 log n for half "
            "of the window.",
        ),
        Claim(
            "With a store the latency is higher, by misses, and stays far below that of the naive "
            "window.",
            below_naive,
            MISSES,
        ),
    ),
)

MEMORY = Trees(
    "Figure 8, experiment 4",
    "Memory",
    figure="Figure 8",
    picture="store_memory",
    setting="The paper shows which window fits into a heap of a given size; here is the memory of "
    "a given window.",
    claims=(
        Claim(
            "In memory, windows take memory in proportion to their size.",
            every(power("Amta", 0.6, 1.4), power("DabaLite", 0.6, 1.4)),
            "Memory is taken in steps when lists grow.",
        ),
        Claim(
            "In a store, what is left in memory hardly grows.",
            every(power(ROCKS, -0.2, 0.5), power(REDIS, -0.2, 0.5)),
            BUFFERS,
        ),
        Claim(
            "A window in a store needs less memory than one in memory.",
            every(times("Amta", ROCKS, 1.0, at=LAST), times("Amta", REDIS, 1.0, at=LAST)),
            BUFFERS,
        ),
    ),
)

DIMENSIONS = Trees(
    "Figure 9, experiment 5",
    "Several dimensions in one window",
    figure="Figure 9",
    picture="store_dimensions",
    setting="As in the paper, the window for each is the time of one dimension, so many times.",
    claims=(
        Claim("The latency grows linearly with the number of dimensions ...", on_a_line),
        Claim(
            "... and more slowly than with a window for each of them.",
            times(APART, TOGETHER, 1.5, at=LAST),
            "The functions of each dimension are called from Python, and take more of the time.",
        ),
    ),
)

PAPER = Paper(
    "mta",
    "Constant-Time Sliding Window Framework with Reduced Memory Footprint and Efficient Bulk "
    "Evictions",
    "Villalba, Berral, Carrera; TPDS 2019",
    (CONSTANT, BULK, MEMORY, DIMENSIONS),
    "Table 2, whose stream of two years of readings is not public.",
)
