"""PBA, the Parallel Boundary Aggregator: SBA whose lcs is computed by a second thread.

KDD 2021, section 4. When a chunk is complete, a worker adds up its slices from the right while this
thread goes on with the next chunk's csa; the two touch different slices. The chunk size of Theorems 1
and 2 is the largest for which the lcs is ready when the window enters the chunk, so that no slide
waits. All windows of a process share one worker.
Invariants, merges and space as in SBA; on this thread at most 3 merges in any slide of whole slices.
The worker runs beside this thread as far as the combine, or the interpreter, lets go of the GIL.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ClassVar

from muntin.aggregators.aggregator import Card
from muntin.aggregators.sba import Chunk, Sba, left_cumulative


@cache
def worker() -> ThreadPoolExecutor:
    """Return the process's one thread for lcs buffers."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="muntin-pba")


if hasattr(os, "register_at_fork"):  # a forked child has no threads of its parent
    os.register_at_fork(after_in_child=worker.cache_clear)


class Pba(Sba):
    """SBA without its slow slide at a boundary. Give the range, so that the worker has time.

    Runtime: every operation worst-case O(1) on the calling thread.

    >>> from muntin import Pba, Max
    >>> window = Pba(Max(), range=4)
    >>> window.bulk_insert([9, 2, 4, 3])
    >>> window.evict()
    >>> window.insert(1)
    >>> window.query()
    4
    """

    __slots__ = ()

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="worst-case 3 merges per slide (4 if ragged), beside a second thread",
        space="(3n + 13) / 2",
        paper="KDD 2021, section 4",
    )

    def _complete(self, chunk: Chunk) -> None:
        if len(chunk.slots) > 2:  # an lcs of fewer slices needs no merge
            thread = worker()
            chunk.lcs = (thread, thread.submit(left_cumulative, chunk.slots, self._combine))

    def _lay_lcs(self, chunk: Chunk) -> None:
        if (
            chunk.lcs is None or chunk.lcs[0] is not worker()
        ):  # after a fork the parent's thread is gone
            super()._lay_lcs(chunk)
            return
        _, lcs = chunk.lcs
        chunk.lcs = None  # should it have failed, the next try computes it here
        chunk.slots = lcs.result()
