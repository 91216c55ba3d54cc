"""A window slide policy: a condition on the window and on a run of its oldest values.

TPDS 2019, sections 3.1 and 4.1.3: wsp(total, old) sees aggregates, of the window after an insertion and
of the run that is considered. If it holds, at least this run leaves: the longest such run does. What a
policy looks at is a dimension of its own, aggregated in the same tree as the user's (experiment 5).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muntin.aggregates import Aggregate, Product
from muntin.aggregates.identity import Identity, functions_of, identity_of


class Rule(NamedTuple):
    """A ready-made policy by its name, by which loops find what leaves without its function."""

    kind: str  # "rows", "age", "sums", "peak" or "run"
    limit: Any = None
    column: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SlidePolicy:
    """What leaves a window: the longest run of oldest values for which `holds(total, old)`.

    Both are results of the policy's own `aggregate`, for the window and for the run. A policy must be
    monotone: if it holds for a run, it holds for every shorter one. `mt.testing.check_policy` finds one
    that is not. Two policies are combined with |: what either would let go goes. A state that was saved
    under a policy continues only under the same: it is known by its name, its aggregate and a digest of
    its function, or by the `version` that you give in place of the digest.

    A policy of time says what leaves as time passes without insertions: the longest run of oldest values
    for which `expires(now, old)`. It is asked by `PolicyWindow.enforce`, and in a query at each report
    with its time.

    >>> import muntin as mt
    >>> calm = SlidePolicy("calm", mt.Range(), lambda total, old: total > 10 and old < total)
    >>> window = mt.PolicyWindow(mt.Collect(), calm | mt.policies.last(4))
    >>> window.bulk_insert([1, 2, 3, 4, 5, 30, 31])
    >>> window.query()
    [30, 31]
    """

    name: str
    aggregate: Aggregate = field(compare=False)
    holds: Callable[[Any, Any], Any] = field(compare=False)
    version: int | str | None = None
    expires: Callable[[Any, Any], Any] | None = field(default=None, compare=False)
    parts: tuple["SlidePolicy", ...] = field(default=(), compare=False)
    made_of: Callable[[Any, Any], Any] | None = field(default=None, compare=False, repr=False)
    rules: tuple[Rule, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.aggregate, Aggregate):
            raise TypeError(
                f"policy {self.name!r} needs an aggregate such as Max(), got {self.aggregate!r}"
            )
        if not callable(self.holds):
            raise TypeError(
                f"policy {self.name!r} needs a function of total and old, got {self.holds!r}"
            )
        if self.expires is not None and not callable(self.expires):
            raise TypeError(
                f"policy {self.name!r}: expires is a function of now and old, got {self.expires!r}"
            )

    def __repr__(self) -> str:
        return f"<policy {self.name}>"

    def __or__(self, other: "SlidePolicy") -> "SlidePolicy":
        """Let go what either policy would: the longer of two runs."""
        if not isinstance(other, SlidePolicy):
            raise TypeError(
                f"a policy is combined with another policy, got {other!r}; a function becomes one with "
                "SlidePolicy(name, aggregate, function)"
            )
        first, second = self.holds, other.holds

        def either(total: Any, old: Any) -> Any:
            return first(total[0], old[0]) or second(total[1], old[1])

        both = Product(self.aggregate, other.aggregate)
        rules = (*self.rules, *other.rules) if self.rules and other.rules else ()
        name = f"{self.name} | {other.name}"
        return SlidePolicy(name, both, either, parts=(self, other), rules=rules)

    def known_by(self) -> Identity:
        """Return what a saved state must agree in with the policy that is to continue it."""
        if self.parts:
            return {"policies": [part.known_by() for part in self.parts]}
        identity = {"name": self.name, "aggregate": identity_of(self.aggregate)}
        if self.holds is self.made_of:  # one of muntin's
            return identity
        functions: dict[str, Any] = {"holds": self.holds}
        if self.expires is not None:
            functions["expires"] = self.expires
        what = f"policy {self.name!r}"
        return {**identity, "functions": functions_of(functions, self.version, what)}

    def on_partials(self) -> Callable[[Any, Any], Any]:
        """Return the condition as a function of partials, as `evict_while` takes it."""
        holds, lower = self.holds, self.aggregate.lower
        return lambda total, old: holds(lower(total), lower(old))

    def expired(self, now: Any, column: str | None = None) -> Callable[[Any, Any], Any] | None:
        """Return what has expired by a time as a function of partials, as `evict_while` takes it.

        With a column only policies that look at it are asked. None if no policy is one of time.
        """
        if self.parts:
            each = [part.expired(now, column) for part in self.parts]
            gone = [(i, expired) for i, expired in enumerate(each) if expired is not None]
            if not gone:
                return None
            return lambda total, old: any(expired(total[i], old[i]) for i, expired in gone)
        expires, lower = self.expires, self.aggregate.lower
        if expires is None or (column is not None and column not in self.aggregate.columns):
            return None
        return lambda _total, old: expires(now, lower(old))
