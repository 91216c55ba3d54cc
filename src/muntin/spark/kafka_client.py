"""A Kafka client that reads given offsets, and the options that a user may give to a source."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as source

Offsets = dict[tuple[str, int], int]  # of each topic and partition

COLUMNS = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
)
CLIENT_DEFAULTS = {
    "group.id": "muntin",  # the client wants one, but never joins it
    "fetch.wait.max.ms": 50,  # the rows are there: no waiting for more
    "fetch.queue.backoff.ms": 10,  # librdkafka's second would be most of the time of a large read
}
CLIENT_FIXED = {"enable.auto.commit": False, "enable.partition.eof": True}
RESET = "auto.offset.reset"
SECRET = re.compile("password|secret|username|jaas|oauth|token|pem|key")
ROWS_PER_BATCH = 10_000
PATIENCE_S = (
    0.1  # of one call for rows, which returns once all are there: it also limits their bytes
)
OPTIONS = (
    *("bootstrap.servers", "topic", "startingOffsets", "maxOffsetsPerTrigger"),
    *("failOnDataLoss", "timeoutSeconds"),
)


@dataclass(frozen=True)
class Options:
    """What was asked for; `client` has the options of the Kafka client, credentials among them."""

    servers: str
    topics: tuple[str, ...]
    starting: str
    max_rows: int | None
    fail_on_data_loss: bool
    timeout_s: float
    client: dict[str, str] = field(repr=False)

    def without_secrets(self, text: str) -> str:
        """Return what the client said without the credentials that it was given."""
        return hidden(self.client, text)

    def lose(self, what: str) -> None:
        """Raise an error about rows that cannot be read any more, unless they are to be skipped."""
        if self.fail_on_data_loss:
            raise RuntimeError(
                f"rows in Kafka at {self.servers} were deleted before they were read: {what}; set the "
                "option failOnDataLoss=false to go on without them"
            )


@dataclass(frozen=True)
class OffsetRange(source.InputPartition):
    """The rows of one partition from `start` until before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return place(self.topic, self.partition)


def place(topic: str, partition: int) -> str:
    """Say which partition it is."""
    return f"partition {partition} of topic {topic!r}"


class Client:
    """A consumer that reads given offsets, waits no longer than allowed and keeps secrets."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._errors: list[Any] = []
        self._kafka = confluent_kafka_client()
        config = {**CLIENT_DEFAULTS, **options.client, **CLIENT_FIXED}
        config |= {RESET: "error" if options.fail_on_data_loss else "earliest"}
        try:
            self._consumer = self._kafka.Consumer({**config, "error_cb": self._errors.append})
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            refusal = options.without_secrets(said(error.args[0]))
            raise ValueError(f"the Kafka client does not take its options: {refusal}") from None

    def close(self) -> None:
        """Leave the servers."""
        self._consumer.close()

    def bounds(self) -> tuple[Offsets, Offsets]:
        """Return the first offset of each partition, and the one behind its last."""
        there = [(topic, p) for topic in self._options.topics for p in self._partitions(topic)]
        earliest = self._ask_offsets(there, self._kafka.OFFSET_BEGINNING)
        return earliest, self._ask_offsets(there, self._kafka.OFFSET_END)

    def _ask_offsets(self, partitions: list[tuple[str, int]], which: int) -> Offsets:
        asked = [self._kafka.TopicPartition(*partition, which) for partition in partitions]
        answers = self._ask("the offsets", self._consumer.offsets_for_times, asked)
        for answer in answers:
            if answer.error is not None:
                raise self._failure(f"the offsets of topic {answer.topic!r}", answer.error)
        return {(answer.topic, answer.partition): answer.offset for answer in answers}

    def _partitions(self, topic: str) -> list[int]:
        found = self._ask(f"topic {topic!r}", self._consumer.list_topics, topic).topics[topic]
        if found.error is None:
            return list(found.partitions)
        if found.error.code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise self._failure(f"topic {topic!r}", found.error)
        raise LookupError(
            f"there is no topic {topic!r} in Kafka at {self._options.servers}: create it, or correct "
            "the option topic"
        )

    def _ask(self, what: str, question: Callable[..., Any], *about: Any) -> Any:
        self._consumer.poll(0)  # for what it has to complain about since the last question
        self._errors.clear()
        try:
            return question(*about, timeout=self._options.timeout_s)
        except self._kafka.KafkaException as error:
            self._consumer.poll(0)
            raise self._failure(what, error.args[0]) from None

    def _failure(self, what: str, error: Any) -> ConnectionError:
        """Return an error with its cause, which is what the client complained about first."""
        said_first = dict.fromkeys(map(said, [error, *self._errors[:1]]))
        causes = self._options.without_secrets(", ".join(said_first))
        return ConnectionError(
            f"Kafka at {self._options.servers} did not give {what} (waited up to "
            f"{self._options.timeout_s:g} s): {causes}; check the servers "
            "and the kafka.* options, or raise the option timeoutSeconds"
        )

    def read(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Read a range; offsets may have gaps where rows were compacted or transactions ended."""
        start = self._kafka.TopicPartition(part.topic, part.partition, part.start)
        self._consumer.assign([start])
        reached, at_end, progress = part.start, False, time.monotonic()
        while reached < part.end:
            messages = self._consumer.consume(min(ROWS_PER_BATCH, part.end - reached), PATIENCE_S)
            self._check(messages, part)
            rows = [m for m in messages if not m.error() and part.start <= m.offset() < part.end]
            if rows:
                yield _batch(part, rows)
            if messages:
                at_end = messages[-1].error() is not None
                reached, progress = messages[-1].offset() + (not at_end), time.monotonic()
            elif time.monotonic() > progress + self._options.timeout_s:
                if not at_end:
                    raise self._failure(f"{part} from offset {reached}", "no rows came")
                # A replica that is behind had its time: the topic was deleted and made again.
                self._options.lose(f"{part} ends at {reached} and not at {part.end}")
                return

    def _check(self, messages: list[Any], part: OffsetRange) -> None:
        """Raise the errors among messages; that a partition ends is none."""
        for message in messages:
            error = message.error()
            if error is None or error.code() == self._kafka.KafkaError._PARTITION_EOF:
                continue
            if error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                self._options.lose(f"{part} has no offset {message.offset()}")
            raise self._failure(str(part), error)


def _batch(part: OffsetRange, messages: list[Any]) -> pa.RecordBatch:
    times = [_time_us(*message.timestamp()) for message in messages]
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(part.topic, len(messages)),
        pa.repeat(pa.scalar(part.partition, pa.int32()), len(messages)),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array(times, COLUMNS.field("timestamp").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


def _time_us(kind: int, time_ms: int) -> int | None:
    return time_ms * 1000 if kind else None  # 0 is TIMESTAMP_NOT_AVAILABLE


def said(error: Any) -> str:
    """Return what an error of the client says."""
    return str(error.str() if hasattr(error, "str") else error)


def hidden(client: Mapping[str, str], text: str) -> str:
    """Return a text without the credentials that a client was given.

    >>> hidden({"sasl.password": "s3cret"}, "s3cret is wrong")
    '*** is wrong'
    """
    secrets = [value for name, value in client.items() if value and SECRET.search(name)]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def confluent_kafka_client() -> Any:
    """Return the client library, or say how to install it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise ImportError(
            'the source muntin_kafka needs confluent-kafka: pip install "muntin[kafka]"'
        ) from error
    return confluent_kafka


def read_options(given: Mapping[str, str]) -> Options:
    """Read the options of a source, or say which is wrong.

    >>> read_options({"bootstrap.servers": "host:9092", "topic": "plugs, doors"}).topics
    ('plugs', 'doors')
    """
    there = {name.lower(): value for name, value in given.items()}
    client = {n.removeprefix("kafka."): v for n, v in there.items() if n.startswith("kafka.")}
    own = {n: v for n, v in there.items() if not n.startswith("kafka.")}
    _check_names(own, client)
    servers = own.get("bootstrap.servers", client.get("bootstrap.servers", ""))
    topics = [topic.strip() for topic in own.get("topic", "").split(",")]
    for name, value in (("bootstrap.servers", servers), ("topic", all(topics))):
        if not value:
            raise ValueError(f"the source muntin_kafka needs the option {name}")
    rows = own.get("maxoffsetspertrigger")
    return Options(
        servers,
        tuple(dict.fromkeys(topics)),
        _choice(own, "startingOffsets", ("earliest", "latest")),
        None if rows is None else int(_positive(int, "maxOffsetsPerTrigger", rows)),
        _choice(own, "failOnDataLoss", ("true", "false")) == "true",
        _positive(float, "timeoutSeconds", own.get("timeoutseconds", "30")),
        {**client, "bootstrap.servers": servers},
    )


def _check_names(own: dict[str, str], client: dict[str, str]) -> None:
    for name in own.keys() - {option.lower() for option in OPTIONS}:
        raise ValueError(
            f"the source muntin_kafka has no option {name!r}: it has {', '.join(OPTIONS)}, and kafka.* "
            "for the client"
        )
    for name in client.keys() & {*CLIENT_FIXED, RESET}:
        raise ValueError(f"leave out the option kafka.{name}: what is read is in the checkpoint")


def _choice(own: dict[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = own.get(name.lower(), choices[0]).lower()
    if value not in choices:
        raise ValueError(f"the option {name} must be {' or '.join(choices)}, got {value!r}")
    return value


def _positive(kind: type[int] | type[float], name: str, value: str) -> float:
    try:
        number = kind(value)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        whole = "a whole number" if kind is int else "a number"
        raise ValueError(f"the option {name} must be {whole} above 0, got {value!r}")
    return number
