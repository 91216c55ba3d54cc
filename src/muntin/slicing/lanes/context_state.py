"""What is known of one key's windows that are found in its rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muntin.slicing.limits import ALWAYS, NEVER, Array


@dataclass
class ContextState:
    """The windows' edges, which were reported, and the open context.

    It is settled once a window has become final: from then on the first edge is one, and not only the
    first row that was seen. Under a policy there are no edges: `reported` has by their end the start and
    the number of rows of what was left, and the context is a tree of them.
    """

    edges: list[int] = field(default_factory=list)
    reported: dict[int, Any] = field(default_factory=dict)  # the end of a window, by its start
    context: Any = None
    seen: int = ALWAYS  # the time of the last row that the context has seen
    settled: bool = False

    def without_context(self) -> "ContextState":
        """Return a copy whose context has to see its rows again."""
        return ContextState(list(self.edges), dict(self.reported), None, NEVER, self.settled)

    def forget(self, final: int) -> None:
        """Forget windows that end by a time up to which nothing changes any more."""
        while len(self.edges) > 1 and self.edges[1] <= final:
            self.reported.pop(self.edges.pop(0), None)
            self.settled = True


def check_edges(state: ContextState, times: Array) -> None:
    """Refuse edges that were saved and are not at rows, in order, or windows that are not at edges."""
    bounds = [*state.edges, *state.reported, *state.reported.values()]
    if any(type(bound) is not int for bound in bounds):
        raise TypeError("edges are whole numbers")
    edges = np.array(state.edges, np.int64)
    if (np.diff(edges) <= 0).any() or not np.isin(edges, times).all():
        raise ValueError("edges lie at the times of rows, in order")
