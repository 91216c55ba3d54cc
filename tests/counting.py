"""Count combines exactly: the aggregate that the papers' bounds are tested with."""

from dataclasses import dataclass, field, replace

from muntin import Aggregate


@dataclass
class Counter:
    """A tally of combines; `during` counts those of one call."""

    combines: int = 0
    worst: dict = field(default_factory=dict)
    total: dict = field(default_factory=dict)
    calls: dict = field(default_factory=dict)

    def during(self, name, call, *arguments):
        before = self.combines
        result = call(*arguments)
        spent = self.combines - before
        self.worst[name] = max(self.worst.get(name, 0), spent)
        self.total[name] = self.total.get(name, 0) + spent
        self.calls[name] = self.calls.get(name, 0) + 1
        return result

    def mean(self, name):
        return self.total[name] / self.calls[name]


def counted(aggregate: Aggregate) -> tuple[Aggregate, Counter]:
    """Return the aggregate with a combine, and inverse, that count themselves."""
    counter = Counter()

    def combine(a, b):
        counter.combines += 1
        return aggregate.combine(a, b)

    def inverse(a, b):
        counter.combines += 1
        return aggregate.inverse(a, b)

    return (
        replace(aggregate, combine=combine, inverse=inverse if aggregate.invertible else None),
        counter,
    )


def spans() -> Aggregate:
    """Aggregate positions to (first, last), which costs nothing and fails on swapped operands."""

    def combine(a, b):
        if a is None or b is None:
            return a if b is None else b
        assert a[1] + 1 == b[0], f"{a} and {b} are not neighbours"
        return (a[0], b[1])

    return Aggregate("spans", None, lift=lambda p: (p, p), combine=combine)
