"""Streams that never end: Spark's rate and socket sources, and a source that falls idle."""

import socket
import threading
import time

from pyspark.sql import functions as F

import muntin as mt
from tests.patience import HUNG_S
from tests.spark_streams import BEGIN, SECOND


def run_until(stream, checkpoint, enough) -> list[dict]:
    """Run a stream until what came out is enough, and return it."""
    results: list[dict] = []
    query = (
        stream.writeStream.foreachBatch(
            lambda frame, _: results.extend(frame.toArrow().to_pylist())
        )
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    deadline = time.monotonic() + HUNG_S
    try:
        while not enough(results) and time.monotonic() < deadline:
            assert query.exception() is None
            time.sleep(0.2)
    finally:
        query.stop()
    return results


def test_rate(spark, tmp_path):
    """Numbers that rise by a thousand in each second, so that all results are known."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
    rows = rows.option("advanceMillisPerBatch", 1000).option("startTimestamp", BEGIN // 1000).load()
    query = mt.Query(
        time="timestamp",
        windows={"w": mt.Sliding("3 s", "1 s")},
        aggregates={"rows": mt.Count(), "low": mt.Min("value"), "high": mt.Max("value")},
        watermark="1 ms",
    )
    results = run_until(mt.spark.aggregate(rows, query), tmp_path / "cp", lambda r: len(r) >= 5)
    assert len(results) >= 5
    for i, row in enumerate(sorted(results, key=lambda row: row["end"])):
        full = min(i + 1, 3)
        assert (row["rows"], row["low"], row["high"]) == (
            1000 * full, 1000 * (i + 1 - full), 1000 * (i + 1) - 1
        )  # fmt: skip


class Lines:
    """A server that sends lines to whoever connects."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._peers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self._peers.append(self._server.accept()[0])
            except OSError:  # closed
                return

    def send(self, line: str) -> None:
        while not self._peers:
            time.sleep(0.05)
        for peer in self._peers:
            peer.sendall(f"{line}\n".encode())

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for peer in self._peers:
            peer.close()


def test_a_socket_that_falls_idle_still_closes_windows(spark, tmp_path):
    lines = Lines()
    source = spark.readStream.format("socket").option("host", "127.0.0.1")
    text = source.option("port", lines.port).load()
    rows = text.select(
        F.expr("timestamp_micros(cast(split(value, ',')[0] as bigint)) as at"),
        F.expr("split(value, ',')[1] as plug"),
        F.expr("cast(split(value, ',')[2] as int) as watts"),
    )
    query = mt.Query(
        time="at",
        keys="plug",
        windows={"w": mt.Tumbling("10 s"), "s": mt.Session("3 s")},
        aggregates={"sum": mt.Sum("watts")},
        watermark="1 s",
    )
    sent = [(0, "tv", 5), (2, "tv", 6), (4, "lamp", 1), (12, "tv", 7), (40, "end", 0)]
    sender = threading.Thread(
        target=lambda: [lines.send(f"{BEGIN + at * SECOND},{k},{v}") for at, k, v in sent]
    )
    sender.start()
    results = run_until(mt.spark.aggregate(rows, query), tmp_path / "cp", lambda r: len(r) >= 6)
    sender.join()
    lines.close()
    found = {(row["plug"], row["window"], row["sum"]) for row in results}
    assert found == {
        ("tv", "w", 11), ("lamp", "w", 1), ("tv", "w", 7),
        ("tv", "s", 11), ("lamp", "s", 1), ("tv", "s", 7),
    }  # fmt: skip
