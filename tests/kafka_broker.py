"""A real Kafka broker, the one that librdkafka has inside: it speaks TCP."""

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition

from tests.patience import HUNG_S

FIRST_MS = 1_700_000_000_123
SOON = {"fetch.wait.max.ms": 10, "fetch.queue.backoff.ms": 10, "reconnect.backoff.ms": 1}


class Broker:
    def __init__(self):
        self._producer = Producer(
            {"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 0}
        )
        [broker] = self._producer.list_topics(timeout=HUNG_S).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def produce(self, topic, numbers, partitions=3, pad=0):
        """Produce numbers round robin; return the rows as they should come out."""
        rows = []
        for i in numbers:
            key, value = (None if i % 7 == 0 else f"k{i}".encode()), f"{i}".encode() + b" " * pad
            self._producer.produce(
                topic, value, key, partition=i % partitions, timestamp=FIRST_MS + i
            )
            self._producer.flush()  # so that each is deleted on its own
            rows.append((key, value, topic, i % partitions, FIRST_MS + i))
        return rows

    def messages(self, topic):
        """Return all messages as (key, value), partition after partition."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reads", **SOON})
        partitions = consumer.list_topics(topic, timeout=HUNG_S).topics[topic].partitions
        found = []
        for partition in partitions:
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=HUNG_S)
            consumer.assign([place])
            left = end
            while left:
                for message in consumer.consume(left, HUNG_S):
                    assert message.error() is None
                    assert message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
                    found.append((message.key(), message.value()))
                    left -= 1
        consumer.close()
        return found
