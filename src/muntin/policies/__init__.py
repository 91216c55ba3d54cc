"""Window slide policies: what leaves a window, programmed by its user (TPDS 2019, section 4.1.3)."""

from muntin.policies.policy import SlidePolicy
from muntin.policies.policy_window import PolicyWindow
from muntin.policies.ready_made import last, sum_at_most, until_longest_run, until_max, within

__all__ = [
    "PolicyWindow",
    "SlidePolicy",
    "last",
    "sum_at_most",
    "until_longest_run",
    "until_max",
    "within",
]
