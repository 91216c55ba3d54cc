"""A compacted topic of Kafka that takes changes: the last message of a key is a row of the table.

The key of a message says which window it is, and its value is the row, both as JSON; a retraction is a
message without a value. A micro-batch that comes again sends its messages again, which leaves the last
of each key as it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muntin.spark.kafka_client import confluent_kafka_client, hidden, said
from muntin.spark.sinks.changes import Changes
from muntin.spark.sinks.plain_values import as_json

CLIENT = {
    "acks": "all",
    "max.in.flight.requests.per.connection": 1,  # what is sent again stays in order
    "message.timeout.ms": 60_000,  # then a message counts as lost, and the micro-batch fails
    "partitioner": "murmur2_random",  # a key has the partition that Java's clients give it
}
PATIENCE_S = 0.1  # of one call for reports of messages that arrived


@dataclass(frozen=True)
class KafkaTable:
    """A topic of some servers; `options` are those of the client, as librdkafka names them."""

    servers: str
    topic: str
    options: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        confluent_kafka_client()
        if not self.servers:
            raise ValueError("the address of Kafka has no servers: write it like kafka://host:9092")

    def apply(self, changes: Changes, query: str | None, batch_id: int) -> None:
        del query, batch_id
        if not changes.rows.num_rows:
            return
        errors: list[Any] = []
        producer = self._producer(errors)

        def arrived(error: Any, message: Any) -> None:
            del message
            if error is not None:
                lost.append(error)

        lost: list[Any] = []
        for key, value in messages(changes):
            while not _sent(producer, self.topic, key, value, arrived):
                producer.poll(PATIENCE_S)
        left = producer.flush()
        if lost or left:
            causes = ", ".join(dict.fromkeys(map(said, [*errors[:1], *lost])))
            raise ConnectionError(
                f"Kafka at {self.servers} did not take all {changes.rows.num_rows} messages of this "
                f"micro-batch for topic {self.topic!r}: {hidden(self.options, causes)}; check the "
                "servers and the options, and start the stream again: it sends all of them again"
            )

    def _producer(self, errors: list[Any]) -> Any:
        """Return a client; what it complains about goes to a list."""
        kafka = confluent_kafka_client()
        config = {**CLIENT, **self.options, "bootstrap.servers": self.servers}
        try:
            return kafka.Producer({**config, "error_cb": errors.append})
        except (kafka.KafkaException, TypeError, ValueError) as error:
            refusal = hidden(self.options, said(error.args[0]))
            raise ValueError(f"the Kafka client does not take its options: {refusal}") from None


def _sent(producer: Any, topic: str, key: bytes, value: bytes | None, arrived: Any) -> bool:
    """Give a message to the client; whether it had space for it."""
    try:
        producer.produce(topic, value, key, on_delivery=arrived)
    except BufferError:
        return False
    producer.poll(0)
    return True


def messages(changes: Changes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the key and the value of each message, in order.

    >>> import pyarrow as pa
    >>> from muntin.spark.sinks.changes import changes
    >>> rows = {"plug": ["tv"], "window": ["hour"], "start": [0], "end": [9], "kind": ["retract"]}
    >>> list(messages(changes(pa.table(rows), ("plug",))))
    [(b'{"plug": "tv", "window": "hour", "end": 9}', None)]
    """
    keys: list[bytes] = [b""] * changes.rows.num_rows
    bounds = changes.known.column_names[changes.known.column_names.index("window") + 1 :]
    for part in changes.parts():
        names = [n for n in changes.known.column_names if n in part.columns or n not in bounds]
        chosen = changes.known.select(names).take(part.places).to_pylist()
        for place, known in zip(part.places.to_pylist(), chosen, strict=True):
            keys[place] = as_json(known).encode()
    rows = changes.rows.to_pylist()
    for key, row, gone in zip(keys, rows, changes.gone.to_pylist(), strict=True):
        yield key, None if gone else as_json(row).encode()
