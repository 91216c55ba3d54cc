"""Traub et al., EDBT 2019: general stream slicing."""

from benchmarks.claims.reading import Paper
from benchmarks.claims.slicing_techniques import CONSTRAINED, LATENCY, MEMORY, WINDOWS
from benchmarks.claims.slicing_workloads import AGGREGATES, DISORDER, MEASURES

PAPER = Paper(
    "slicing",
    "Efficient Window Aggregation with General Stream Slicing",
    "Traub, Grulich, Rodríguez Cuéllar, Breß, Katsifodimos, Rabl, Markl; EDBT 2019",
    (WINDOWS, CONSTRAINED, MEMORY, LATENCY, DISORDER, AGGREGATES, MEASURES),
    "Figure 15 (the time to fold a slice again after a split) and Figure 17 (parallel instances "
    "of Flink). The football match is replayed by a stream of its rate, values, pauses and "
    "disorder.",
)
