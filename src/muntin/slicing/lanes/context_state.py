"""What is known of one key's windows under a policy."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ContextState:
    """What was left at the ends that were reported, and a tree of what is left now."""

    # By an end, the start and the number of rows of what was left.
    reported: dict[int, Any] = field(default_factory=dict)
    context: Any = None

    def without_context(self) -> "ContextState":
        """Return a copy whose tree has to see its rows again."""
        return ContextState(dict(self.reported))
