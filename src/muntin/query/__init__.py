"""A query, the plan that it runs by, and the operator that runs it on a stream.

Bound aggregates are aggregates with the columns of a batch; a result table is what an operator returns.
"""

from muntin.query.query import Query

__all__ = ["Query"]
