"""Final aggregation: every algorithm of the papers, one file each."""

from muntin.aggregators.aggregator import Aggregator, Card, InvariantError
from muntin.aggregators.amta import Amta
from muntin.aggregators.b_int import BInt
from muntin.aggregators.daba import Daba
from muntin.aggregators.daba_lite import DabaLite
from muntin.aggregators.fiba import Fiba
from muntin.aggregators.flat_fat import FlatFat
from muntin.aggregators.flat_fit import FlatFit
from muntin.aggregators.log_mta import LogMta
from muntin.aggregators.pba import Pba
from muntin.aggregators.recalc import Recalc
from muntin.aggregators.sba import Sba
from muntin.aggregators.slick_deque import SlickDeque
from muntin.aggregators.subtract_on_evict import SubtractOnEvict
from muntin.aggregators.two_stacks import TwoStacks
from muntin.aggregators.two_stacks_lite import TwoStacksLite

ALGORITHMS: dict[str, type[Aggregator]] = {
    algorithm.__name__: algorithm
    for algorithm in (
        Recalc,
        SubtractOnEvict,
        TwoStacks,
        TwoStacksLite,
        Daba,
        DabaLite,
        SlickDeque,
        FlatFit,
        FlatFat,
        BInt,
        Sba,
        Pba,
        LogMta,
        Amta,
        Fiba,
    )
}
"""Every algorithm by its name."""

__all__ = [
    "ALGORITHMS",
    "Aggregator",
    "Amta",
    "BInt",
    "Card",
    "Daba",
    "DabaLite",
    "Fiba",
    "FlatFat",
    "FlatFit",
    "InvariantError",
    "LogMta",
    "Pba",
    "Recalc",
    "Sba",
    "SlickDeque",
    "SubtractOnEvict",
    "TwoStacks",
    "TwoStacksLite",
]
