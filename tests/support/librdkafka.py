"""Clients of librdkafka, through confluent-kafka: write, read and administer any cluster.

Keyword arguments are configuration properties with ``_`` in place of ``.``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from .foreign import CLIENT_TIMEOUT_S, Record
from .polling import poll

# librdkafka writes to stderr about each connection that a test breaks.
_QUIET: Final = {"log_level": 0}
_NUMBERS: Final = itertools.count()


def _unique(kind: str) -> str:
    """A name that nobody else has, neither another process that uses the same broker."""
    return f"{kind}-{os.getpid()}-{next(_NUMBERS)}"


def produce(
    bootstrap_servers: str, topic: str, records: Iterable[Record], compression: str = "none", **config: object
) -> None:
    """Write records, and wait until all are acknowledged.

    Raises ``KafkaException`` for the first that is not.
    """
    producer = Producer(_configuration(bootstrap_servers, compression_codec=compression, **config))
    _send(producer, topic, records)


@contextlib.contextmanager
def transaction(
    bootstrap_servers: str,
    topic: str,
    records: Iterable[Record],
    *,
    outcome: str = "commit",
    **config: object,
) -> Iterator[None]:
    """Write records in a transaction that is ended before the block ("commit", "abort") or after ("open").

    With "open" it is under way during the block, and aborted afterwards. What ends it is in the partitions
    then: its coordinator answers before that. No other transaction may be open before it in the same logs.
    """
    config.setdefault("transactional_id", _unique("transaction"))
    producer = Producer(_configuration(bootstrap_servers, **config))
    producer.init_transactions(CLIENT_TIMEOUT_S)
    producer.begin_transaction()
    ends = _send(producer, topic, records)
    if outcome == "commit":
        producer.commit_transaction(CLIENT_TIMEOUT_S)
    elif outcome == "abort":
        producer.abort_transaction(CLIENT_TIMEOUT_S)
    if outcome != "open":
        _await_markers(bootstrap_servers, topic, ends)
    try:
        yield
    finally:
        if outcome == "open":
            producer.abort_transaction(CLIENT_TIMEOUT_S)
            _await_markers(bootstrap_servers, topic, ends)


def commit(bootstrap_servers: str, topic: str, records: Iterable[Record], **config: object) -> None:
    """Write records in a transaction of their own, and commit it."""
    with transaction(bootstrap_servers, topic, records, outcome="commit", **config):
        pass


def abort(bootstrap_servers: str, topic: str, records: Iterable[Record], **config: object) -> None:
    """Write records in a transaction of their own, and abort it: they are in the log, and do not count."""
    with transaction(bootstrap_servers, topic, records, outcome="abort", **config):
        pass


def consume(
    bootstrap_servers: str,
    topic: str,
    partition: int = 0,
    *,
    start_offset: int = OFFSET_BEGINNING,
    isolation_level: str = "read_uncommitted",
    **config: object,
) -> list[Record]:
    """All records of a partition from an offset on, until its end."""
    with _reader(bootstrap_servers, isolation_level, config) as reader:
        reader.assign([TopicPartition(topic, partition, start_offset)])
        return list(_until_end(reader))


def consume_partitions(
    bootstrap_servers: str,
    partitions: Collection[tuple[str, int]],
    *,
    isolation_level: str = "read_uncommitted",
    **config: object,
) -> dict[tuple[str, int], list[Record]]:
    """All records of several partitions, each a topic and a partition, by one consumer: to make one takes
    long."""
    result: dict[tuple[str, int], list[Record]] = {partition: [] for partition in partitions}
    with _reader(bootstrap_servers, isolation_level, config) as reader:
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in partitions])
        left = set(partitions)
        while left:
            message = _polled(reader)
            location: Any = message.topic(), message.partition()
            if message.error() is None:
                result[location].append(_record(message))
            else:
                left.discard(location)
        return result


def _consumer(bootstrap_servers: str, **config: object) -> contextlib.closing[Consumer]:
    """A consumer until its block ends; of no group that others know, unless it is given."""
    return contextlib.closing(
        Consumer(_configuration(bootstrap_servers, **{"group_id": _unique("reader"), **config}))
    )


def _reader(
    bootstrap_servers: str, isolation_level: str, config: Mapping[str, object]
) -> contextlib.closing[Consumer]:
    own = {"enable_auto_commit": False, "enable_partition_eof": True, "auto_offset_reset": "error"}
    given = {"isolation_level": isolation_level, "fetch_wait_max_ms": 10, **config}
    return _consumer(bootstrap_servers, **own, **given)


def offsets(
    bootstrap_servers: str, topic: str, partition: int = 0, *, isolation_level: str = "read_uncommitted"
) -> tuple[int, int]:
    """Start and end (exclusive) of a log, as its broker says now; with ``read_committed`` the end is the
    first open transaction."""
    with _consumer(bootstrap_servers, isolation_level=isolation_level) as reader:
        start, stop = reader.get_watermark_offsets(TopicPartition(topic, partition), CLIENT_TIMEOUT_S)
        return int(start), int(stop)


def offsets_at(bootstrap_servers: str, topic: str, partitions: int, time_ms: int) -> list[int]:
    """The first offset of that time or later in each partition; -1 if it has none."""
    asked = [TopicPartition(topic, number, time_ms) for number in range(partitions)]
    with _consumer(bootstrap_servers) as consumer:
        return [item.offset for item in consumer.offsets_for_times(asked, timeout=CLIENT_TIMEOUT_S)]


def commit_offsets(
    bootstrap_servers: str, group_id: str, topic: str, next_offsets: Mapping[int, int], **config: object
) -> None:
    """Leave a group's position in each partition with the broker, as a consumer would."""
    with _consumer(bootstrap_servers, group_id=group_id, **config) as reader:
        partitions = [TopicPartition(topic, partition, offset) for partition, offset in next_offsets.items()]
        for tp in reader.commit(offsets=partitions, asynchronous=False):
            if tp.error:
                raise KafkaException(tp.error)


@contextlib.contextmanager
def committing_offsets(
    bootstrap_servers: str, group_id: str, topic: str, next_offsets: Mapping[int, int]
) -> Iterator[None]:
    """A transaction that commits a group's offsets is open during the block, and committed after it."""
    producer = Producer(_configuration(bootstrap_servers, transactional_id=_unique("transaction")))
    with _consumer(bootstrap_servers, group_id=group_id) as reader:
        producer.init_transactions(CLIENT_TIMEOUT_S)
        producer.begin_transaction()
        partitions = [TopicPartition(topic, partition, offset) for partition, offset in next_offsets.items()]
        producer.send_offsets_to_transaction(partitions, reader.consumer_group_metadata(), CLIENT_TIMEOUT_S)
        yield
        producer.commit_transaction(CLIENT_TIMEOUT_S)


def committed_offset(bootstrap_servers: str, group_id: str, topic: str, partition: int = 0) -> int:
    """A group's position in a partition; negative where it has none."""
    with _consumer(bootstrap_servers, group_id=group_id) as reader:
        [tp] = reader.committed([TopicPartition(topic, partition)], CLIENT_TIMEOUT_S)
        return int(tp.offset)


def delete_group(bootstrap_servers: str, group_id: str) -> None:
    """Let brokers forget a group, and what it has committed."""
    admin = _admin(bootstrap_servers, {})
    admin.delete_consumer_groups([group_id])[group_id].result(CLIENT_TIMEOUT_S)


@contextlib.contextmanager
def member(bootstrap_servers: str, group_id: str, topic: str, **config: object) -> Iterator[None]:
    """A consumer that is in its group, with all partitions of the topic, during the block."""
    with _consumer(bootstrap_servers, group_id=group_id, enable_auto_commit=False, **config) as reader:

        def has_partitions() -> bool:
            reader.poll(0.1)  # a consumer joins, and stays, while it is polled
            return bool(reader.assignment())

        reader.subscribe([topic])
        poll(has_partitions, f"{group_id} has its partitions", CLIENT_TIMEOUT_S)
        yield


def create_topic(
    bootstrap_servers: str,
    partitions: int = 1,
    name: str | None = None,
    topic_config: Mapping[str, str] | None = None,
    **config: object,
) -> str:
    """Create a topic, with a name that no other test has unless it is given; its name.

    As many brokers as are named keep it, three at most. They know it then, which is later than the
    controller's answer.
    """
    topic = name or _unique("topic")
    replicas = min(3, bootstrap_servers.count(",") + 1)
    new = NewTopic(topic, partitions, replicas, config=dict(topic_config or {}))
    # A client that is garbage answers nothing: it needs a name until its answer is there.
    admin = _admin(bootstrap_servers, config)
    admin.create_topics([new], operation_timeout=CLIENT_TIMEOUT_S)[topic].result(CLIENT_TIMEOUT_S)
    _await_partitions(admin, topic, partitions)
    return topic


def create_partitions(bootstrap_servers: str, topic: str, partitions: int, **config: object) -> None:
    """Make a topic one of ``partitions`` partitions in all."""
    admin = _admin(bootstrap_servers, config)
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(CLIENT_TIMEOUT_S)
    _await_partitions(admin, topic, partitions)


def delete_topic(bootstrap_servers: str, topic: str, **config: object) -> None:
    """Delete a topic."""
    admin = _admin(bootstrap_servers, config)
    admin.delete_topics([topic], operation_timeout=CLIENT_TIMEOUT_S)[topic].result(CLIENT_TIMEOUT_S)


def delete_topic_and_wait(bootstrap_servers: str, topic: str) -> None:
    """Delete a topic, and wait until brokers know of it, which is later than the controller's answer."""
    delete_topic(bootstrap_servers, topic)
    admin = _admin(bootstrap_servers, {})

    def is_gone() -> bool:
        return topic not in admin.list_topics(timeout=CLIENT_TIMEOUT_S).topics

    poll(is_gone, f"{topic} to be gone", CLIENT_TIMEOUT_S)


def delete_records(
    bootstrap_servers: str, topic: str, partition: int, before_offset: int, **config: object
) -> None:
    """Move the start of a partition up to ``before_offset``: what was before it is gone."""
    admin = _admin(bootstrap_servers, config)
    deleted = admin.delete_records([TopicPartition(topic, partition, before_offset)])
    for done in deleted.values():
        done.result(CLIENT_TIMEOUT_S)


def set_broker(bootstrap_servers: str, broker: int, name: str, value: str | None) -> None:
    """Change a dynamic setting of one broker; None removes it."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
    admin = _admin(bootstrap_servers, {})
    admin.incremental_alter_configs([resource])[resource].result(CLIENT_TIMEOUT_S)


def is_in_sync(bootstrap_servers: str, topic: str, broker: int) -> bool:
    """True if a broker is among the replicas in sync of any partition."""
    admin = _admin(bootstrap_servers, {})
    partitions = admin.list_topics(topic, CLIENT_TIMEOUT_S).topics[topic].partitions.values()
    return any(broker in partition.isrs for partition in partitions)


def _await_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
    def are_led() -> bool:
        result = admin.list_topics(timeout=CLIENT_TIMEOUT_S).topics.get(topic)
        return (
            result is not None and sum(item.leader >= 0 for item in result.partitions.values()) >= partitions
        )

    poll(are_led, f"{topic} to have {partitions} partitions with leaders", CLIENT_TIMEOUT_S)


def _await_markers(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> None:
    """Wait until no transaction is open before these ends of a topic's logs."""

    def is_ended(partition: int, end: int) -> bool:
        return offsets(bootstrap_servers, topic, partition, isolation_level="read_committed")[1] > end

    for partition, end in ends.items():
        what = f"the marker of a transaction in {topic} {partition}"
        poll(partial(is_ended, partition, end), what, CLIENT_TIMEOUT_S)


def _admin(bootstrap_servers: str, config: Mapping[str, object]) -> AdminClient:
    return AdminClient(_configuration(bootstrap_servers, **config))


def _configuration(bootstrap_servers: str, **config: object) -> dict[str, Any]:
    properties = {name.replace("_", "."): value for name, value in config.items()}
    return {"bootstrap.servers": bootstrap_servers, **_QUIET, **properties}


def _send(producer: Producer, topic: str, records: Iterable[Record]) -> dict[int, int]:
    """Write all; behind which offset the last one of each partition is."""
    failed: list[KafkaError] = []
    ends: dict[int, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        if offset is not None:  # without acknowledgements nobody knows
            ends[partition] = max(ends.get(partition, 0), offset + 1)

    for record in records:
        _enqueue(producer, topic, record, delivered)
    left = producer.flush(CLIENT_TIMEOUT_S)
    if failed:
        raise KafkaException(failed[0])
    assert left == 0, f"librdkafka still holds {left} records after {CLIENT_TIMEOUT_S:g} s"
    return ends


def _enqueue(producer: Producer, topic: str, record: Record, delivered: Any) -> None:
    extra: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=delivered,
                headers=list(record.headers),
                **extra,
            )
            return
        except BufferError:
            producer.poll(1.0)


def _until_end(reader: Consumer) -> Iterator[Record]:
    while (message := _polled(reader)).error() is None:
        yield _record(message)


def _polled(reader: Consumer) -> Message:
    """The next record, or the news that a partition has ended; raises any other error."""
    message = reader.poll(CLIENT_TIMEOUT_S)
    assert message is not None, f"librdkafka got neither a record nor the end in {CLIENT_TIMEOUT_S:g} s"
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return message


def _record(message: Message) -> Record:
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(headers),
        timestamp_ms=timestamp_ms,
        partition=partition,
        offset=offset,
        timestamp_type=int(kind == TIMESTAMP_LOG_APPEND_TIME),
    )
