"""Clients of kafka-python, which write to and read from any cluster. They share no code with librdkafka.

It writes no null header values.

Keyword arguments are kafka-python's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, Final

from .codecs import known_to
from .foreign import CLIENT_TIMEOUT_S, Record

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient
    from kafka.codec import snappy_decode as snappy_decode
    from kafka.codec import snappy_encode as snappy_encode
    from kafka.partitioner.default import murmur2 as murmur2
    from kafka.protocol.admin import AlterClientQuotasRequest

#: The compressions that it has without further packages.
CODECS: Final = known_to("kafka-python")


def produce(
    bootstrap_servers: str, topic: str, records: Iterable[Record], compression: str = "none", **config: Any
) -> None:
    """Write records, and wait until all are acknowledged; raises kafka-python's error for one that is not."""
    with KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=None if compression == "none" else compression,
        **config,
    ) as producer:
        sent = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        for future in sent:
            future.get(CLIENT_TIMEOUT_S)


def consume(
    bootstrap_servers: str,
    topic: str,
    partition: int = 0,
    *,
    start_offset: int | None = None,
    isolation_level: str = "read_uncommitted",
    **config: Any,
) -> list[Record]:
    """All records of a partition from an offset on, until the end that it has now."""
    log = TopicPartition(topic, partition)
    reader = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level=isolation_level,
        **config,
    )
    try:
        reader.assign([log])
        if start_offset is None:
            reader.seek_to_beginning(log)
        else:
            reader.seek(log, start_offset)
        return list(_until(reader, log, reader.end_offsets([log])[log]))
    finally:
        reader.close(autocommit=False)


def limit_reads(bootstrap_servers: str, client_id: str, bytes_per_s: int) -> None:
    """Give the clients of that name a quota."""
    kind = AlterClientQuotasRequest.EntryData
    entry = kind(
        entity=[kind.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[kind.OpData(key="consumer_byte_rate", value=float(bytes_per_s), remove=False)],
    )
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        # It has no method of its own for that.
        response = admin._manager.run(
            admin._manager.send, AlterClientQuotasRequest(entries=[entry], validate_only=False)
        )
    finally:
        admin.close()
    assert [item.error_code for item in response.entries] == [0]


def _until(reader: KafkaConsumer, partition: TopicPartition, stop_offset: int) -> Iterator[Record]:
    deadline = monotonic() + CLIENT_TIMEOUT_S
    while reader.position(partition) < stop_offset:
        assert monotonic() < deadline, f"kafka-python did not come to offset {stop_offset} in time"
        for result in reader.poll(timeout_ms=500).get(partition, ()):
            yield Record(
                value=result.value,
                key=result.key,
                headers=tuple(result.headers),
                timestamp_ms=result.timestamp,
                partition=result.partition,
                offset=result.offset,
                timestamp_type=result.timestamp_type,
            )
