"""A window that slides by a policy of its user's.

TPDS 2019, section 4.1.4: insert an update, enforce the policy, query. The aggregate and what the policy
looks at are one partial in one tree, so that both share its structure and its evictions (experiment 5).
Costs are those of the tree: with Amta an insertion that evicts k of n values has amortised O(1) combines
per value, and O(log n) at worst, whatever k is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from muntin.aggregates import Aggregate, Product
from muntin.aggregates.aggregate import altered
from muntin.aggregators import Amta, LogMta
from muntin.aggregators.monoid_tree import MonoidTree
from muntin.policies.policy import SlidePolicy

if TYPE_CHECKING:
    from muntin.stores import Store, StoredAmta

TREES: dict[str, type[MonoidTree]] = {"Amta": Amta, "LogMta": LogMta}
Holds = Callable[[Any, Any], Any]
"""A condition on the whole window and a run of its oldest values."""
AnyPolicy = SlidePolicy | Holds
Expired = Callable[[Any], Holds | None]
"""What has expired by a time; None under a policy that is not of time."""


class PolicyWindow:
    """A window from which, after each insertion, goes what a policy says.

    The policy is one of `mt.policies`, or a function `policy(total, old)` that sees results of the
    window's aggregate: for the whole window, and for a run of its oldest values. The longest run for
    which it holds is evicted: the whole window, if it holds for that. If the policy raises, the value
    is in and nothing was evicted; it is asked again after the next insertion.
    With a store, the window of this id is opened there, as it was left, and memory holds O(log n) of it.
    If the store fails, the value is not in: insert it again. A window that was left under another policy
    or aggregate is refused; with `trust_functions` your own functions are not compared.
    Runtime: an insertion amortised O(1) combines with Amta, worst O(log n) whatever leaves; query O(1).

    >>> import muntin as mt
    >>> window = PolicyWindow(mt.Max(), mt.policies.sum_at_most(10))
    >>> window.bulk_insert([2, 2, 3, 3, 4])
    >>> window.query(), len(window)
    (4, 3)
    >>> pairs = PolicyWindow(mt.Count(), lambda total, old: total - old >= 2)
    >>> pairs.bulk_insert("abcdef")
    >>> len(pairs)
    2
    """

    __slots__ = ("_expired", "_holds", "_stored", "_window", "aggregate", "policy")

    def __init__(
        self,
        aggregate: Aggregate,
        policy: AnyPolicy,
        store: "Store | None" = None,
        *,
        window_id: str = "window",
        buffer: int = 512,
        algorithm: str = "Amta",
        trust_functions: bool = False,
    ) -> None:
        if algorithm not in TREES:
            raise ValueError(f"a policy window is an Amta or a LogMta, got {algorithm!r}")
        self.aggregate = aggregate
        self.policy = policy
        shared, self._holds, self._expired = _shared(aggregate, policy)
        self._stored: StoredAmta | None = None
        self._window: MonoidTree
        if store is None:
            self._window = TREES[algorithm](shared)
        elif algorithm == "Amta":
            from muntin.stores import stored

            options: dict[str, Any] = {"buffer": buffer, "trust_functions": trust_functions}
            self._window = self._stored = stored(shared, store, window_id, **options)
        else:
            raise ValueError(f"a window in a store is an Amta, got {algorithm!r}")

    def __len__(self) -> int:
        return len(self._window)

    def insert(self, value: Any) -> None:
        """Add a value at the young end, and evict what the policy then says."""
        self._window.slide(value, self._holds)

    def bulk_insert(self, values: Iterable[Any]) -> None:
        """Insert several values, the oldest first; the policy is asked after each.

        `inserted` says how many are in, if something fails.
        """
        for value in values:
            self.insert(value)

    def enforce(self, now: Any) -> int:
        """Evict what a policy of time lets go by `now`; return how many values left.

        `within(d)` then leaves the values of the last d before `now`. Other policies let nothing go, as
        nothing was inserted. Runtime: O(log n) combines, whatever leaves.

        >>> import muntin as mt
        >>> window = mt.PolicyWindow(mt.Collect("watts"), mt.policies.within(10, "t"))
        >>> window.bulk_insert({"t": t, "watts": 5 * t} for t in (1, 4, 7))
        >>> window.enforce(now=14), window.query()
        (2, [35])
        """
        expired = self._expired(now)
        return 0 if expired is None else self._window.evict_while(expired)

    def query(self) -> Any:
        """Return the aggregate of the whole window, lower(identity) if it is empty."""
        return self._window.query()

    @property
    def inserted(self) -> int:
        """How many values were ever inserted, in earlier processes too."""
        return self._window._levels[0].tail

    @property
    def evicted(self) -> int:
        """How many values the policy has ever let go."""
        return self._window._levels[0].head

    def snapshot(self) -> bytes:
        """Return the window as bytes, with a format version and a checksum."""
        return self._window.snapshot()

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        aggregate: Aggregate,
        policy: AnyPolicy,
        *,
        algorithm: str = "Amta",
        trust_functions: bool = False,
    ) -> Self:
        """Return the window that was saved; SnapshotError if the bytes are not such a window."""
        made = cls(aggregate, policy, algorithm=algorithm)
        restore, shared = TREES[algorithm].restore, made._window.aggregate
        made._window = restore(snapshot, shared, trust_functions=trust_functions)
        return made

    def flush(self) -> None:
        """Commit a window that is in a store as it is now."""
        if self._stored is not None:
            self._stored.flush()

    def close(self) -> None:
        """Commit a window that is in a store, and let others open it."""
        if self._stored is not None:
            self._stored.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._stored is not None:
            self._stored.__exit__(*error)

    def check(self, values: Sequence[Any] | None = None) -> None:
        """Raise InvariantError unless the paper's invariants hold; see Aggregator.check."""
        self._window.check(values)

    def __repr__(self) -> str:
        return f"<PolicyWindow({self._window.aggregate.name}) of {len(self)} values>"


def _shared(aggregate: Aggregate, policy: AnyPolicy) -> tuple[Aggregate, Holds, Expired]:
    """Return one aggregate for the user's and the policy's, and the policy on its partials."""
    if not isinstance(aggregate, Aggregate):
        raise TypeError(f"PolicyWindow needs an aggregate such as Max(), got {aggregate!r}")
    if isinstance(policy, SlidePolicy):
        dimensions = Product(aggregate, policy.aggregate)
        name, holds = f"{aggregate.name} under {policy.name}", policy.on_partials()
        first, second = aggregate.combine, policy.aggregate.combine
        shared = altered(
            dimensions,
            combine=lambda a, b: (first(a[0], b[0]), second(a[1], b[1])),  # quicker for two
            lower=lambda partials: aggregate.lower(partials[0]),
        )

        def expired(now: Any) -> Holds | None:
            gone = policy.expired(now)
            return None if gone is None else lambda total, old: gone(total[1], old[1])

        return _named(shared, name, policy), lambda total, old: holds(total[1], old[1]), expired
    if not callable(policy):
        raise TypeError(
            "PolicyWindow needs a policy such as mt.policies.last(100), or a function of total and old; "
            f"got {policy!r}"
        )
    own = SlidePolicy(getattr(policy, "__name__", repr(policy)), aggregate, policy)
    shared = _named(aggregate, f"{aggregate.name} under {own.name}", own)
    return shared, own.on_partials(), own.expired


def _named(shared: Aggregate, name: str, policy: SlidePolicy) -> Aggregate:
    """Name the policy too: a state that was saved under another is refused."""
    return replace(shared, name=name, parameters=(*shared.parameters, ("policy", policy)))
