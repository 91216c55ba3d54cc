"""The definition of a window: a list and a left fold. Everything is compared with it."""

from functools import reduce


class Oracle:
    """What every algorithm must agree with."""

    def __init__(self, aggregate):
        self.aggregate = aggregate
        self.lift = aggregate.input_lift()
        self.values = []

    def insert(self, value):
        self.values.append(value)

    def evict(self, n=1):
        del self.values[:n]

    def query(self):
        return self.range_query(0, len(self.values))

    def range_query(self, start, end):
        partials = map(self.lift, self.values[start:end])
        return self.aggregate.lower(
            reduce(self.aggregate.combine, partials, self.aggregate.identity)
        )

    def __len__(self):
        return len(self.values)
