"""What the page knows: the last windows of a few keys, the figures of the stream, and the plan."""

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.query.query import Query
from muntin.query.window_time import DROPPED
from muntin.watch.charts import View, keys_to_show, sketch
from muntin.watch.figures import Figures
from muntin.watch.history import History
from muntin.watch.lines import compress


class Board:
    """Takes a query's results and progress, and tells a page what to draw.

    Feed it from Spark's foreachBatch or from an operator, and `serve` it; threads may do both at the
    same time. Cost: O(rows) to take results; what is held is bounded, however long the query runs.

    >>> import muntin as mt
    >>> from muntin.watch import Board, serve
    >>> query = mt.Query(
    ...     time="t", windows={"ten": mt.Tumbling(10)}, aggregates={"peak": mt.Max("watts")}
    ... )
    >>> board, op = Board(query, title="plugs"), query.operator()
    >>> with serve(board) as server:  # print(server.url) and open it in a browser
    ...     _ = op.process({"t": [3, 8, 14], "watts": [80, 95, 70]})
    ...     board.take(op.advance(20))
    >>> chart = board.drawing()["charts"][0]
    >>> chart["window"], chart["aggregate"], chart["lines"][0]["values"][-1]
    ('ten', 'peak', 70.0)
    """

    def __init__(self, query: Query, title: str = "muntin") -> None:
        self.query = query
        self.title = title
        self._changed = threading.Condition()
        self._version = 0
        self._figures = Figures(query)
        self._history = History(query)

    def take(self, table: pa.Table) -> None:
        """Take results as a query gives them; rows that no window took are left out."""
        if "kind" in table.column_names:
            table = table.filter(pc.not_equal(table["kind"], DROPPED))
        if not table.num_rows:
            return
        with self._changed:
            self._figures.count(self._history.take(table))
            self._tell()

    def progress(self, told: Mapping[str, Any]) -> None:
        """Take the progress of a Spark streaming query, its lastProgress as a dict.

        The same progress may come again; it counts once.
        """
        with self._changed:
            if self._figures.progress(told):
                self._tell()

    def _tell(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def wait(self, seen: int, seconds: float, stop: threading.Event) -> int:
        """Wait until there is more than what was seen, or it is time to stop; return the version."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen or stop.is_set(), seconds)
            return self._version

    def wake(self) -> None:
        """Let all that wait look whether it is time to stop."""
        with self._changed:
            self._changed.notify_all()

    def about(self) -> dict[str, Any]:
        """Return what stays the same: the title, the names of the keys, and the plan."""
        return {"title": self.title, "keys": list(self.query.keys), "plan": self.query.explain()}

    def figures(self) -> dict[str, Any]:
        """Return the figures of the stream as plain data."""
        with self._changed:
            return self._figures.plain()

    def drawing(self, view: View | None = None) -> dict[str, Any]:
        """Return what a page shows, as plain data: keys, figures, and charts compressed with M4."""
        view = view or View()
        with self._changed:
            followed = self._history.followed
            shown = keys_to_show(self._history, view)
            followed.look_at(shown)
            keys = [{"id": key, "name": followed.names[key]} for key in followed.recent]
            figures = self._figures.plain()
            sketches = sketch(self._history, view, shown)
        compressed = iter(compress([line for _, lines in sketches for line in lines]))
        charts = []
        for chart, _ in sketches:
            keyed = [{"key": key} | next(compressed) for key in chart.pop("keys")]
            charts.append(chart | {"lines": keyed})
        return {"keys": keys, "shown": shown, "figures": figures, "charts": charts}
