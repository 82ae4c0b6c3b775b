"""One partition into Arrow tables in one process, by this package and by the Python clients there are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from .log_server import log_server
from .measure import Figure, interleaved, say, throughput
from .modern_logs import write_log
from .session import PREFIX, Bench
from .sources import VALUE_SIZE, Side

with warnings.catch_warnings():
    # It reads its schemas with a function that Python deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

#: kafka-python is read with a part of the rows: it takes minutes for all.
_ROWS: Final = {"kafkawire": 5_000_000, "confluent-kafka": 1_000_000, "kafka-python": 200_000}
#: Rows of one Arrow batch, as the other clients' records are gathered.
_BATCH_ROWS: Final = 50_000
#: By default librdkafka pauses for a second whenever 100,000 records wait: 0.14, not 0.35 million rows/s.
_LIBRDKAFKA: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "fetch.message.max.bytes": 8 << 20,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 20,
    "fetch.queue.backoff.ms": 1,
    "log_level": 0,
}
_NAMES: Final = ("key", "value", "offset", "timestamp")


def clients(bench: Bench) -> Iterator[Figure]:
    """Keys, values, offsets and timestamps of an uncompressed topic, rows per second."""
    say(f"clients: values of {VALUE_SIZE} bytes into Arrow")
    with TemporaryDirectory(prefix=PREFIX) as folder:
        log = write_log(Path(folder), "t-0", value_size=VALUE_SIZE, rows=max(_ROWS.values()))
        with log_server(Path(folder)) as servers:
            readers: dict[str, Callable[[str, int], int]] = {
                "kafkawire": _kafkawire,
                "confluent-kafka": confluent_kafka,
                "kafka-python": _kafka_python,
            }
            runs = {name: _checked(read, servers, _ROWS[name]) for name, read in readers.items()}
            seconds = interleaved(runs, bench.rounds)
    ours = _ROWS["kafkawire"] / median(seconds["kafkawire"])
    for name, rows in _ROWS.items():
        moved = throughput(seconds[name], rows=rows, size=rows * log.value_bytes // log.rows)
        yield Figure(
            f"into Arrow by {name}",
            "times_slower",
            ours / (rows / median(seconds[name])),
            details={"value_size": VALUE_SIZE, **moved},
        )


def _checked(read: Callable[[str, int], int], servers: str, rows: int) -> Callable[[], None]:
    def run() -> None:
        found = read(servers, rows)
        assert found >= rows, f"{found} rows, not {rows}"

    return run


def _kafkawire(servers: str, rows: int) -> int:
    found = 0
    side = Side("kafkawire", {"kafka.bootstrap.servers": servers, "subscribe": "t"})
    for batch in side.first_partition(_NAMES):
        found += batch.num_rows
        if found >= rows:
            break
    return found


def confluent_kafka(servers: str, rows: int, topic: str = "t", partitions: int = 1) -> int:
    """Reads at least so many rows, where there are as many, in one process; how many it found."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", **_LIBRDKAFKA})
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        found = 0
        while found < rows:
            # It waits for as many as it is asked for.
            messages = consumer.consume(min(_BATCH_ROWS, rows - found), timeout=10)
            if not messages:
                break
            columns: list[list[Any]] = [
                [message.key() for message in messages],
                [message.value() for message in messages],
                [message.offset() for message in messages],
                [message.timestamp()[1] for message in messages],
            ]
            found += _batch(columns).num_rows
        return found
    finally:
        consumer.close()


def _kafka_python(servers: str, rows: int) -> int:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
    )
    try:
        log = kafka.TopicPartition("t", 0)
        consumer.assign([log])
        consumer.seek_to_beginning(log)
        records = _records(consumer, log)
        found = 0
        while found < rows and (some := list(islice(records, _BATCH_ROWS))):
            columns = [
                [record.key for record in some],
                [record.value for record in some],
                [record.offset for record in some],
                [record.timestamp for record in some],
            ]
            found += _batch(columns).num_rows
        return found
    finally:
        consumer.close(autocommit=False)


def _records(consumer: Any, log: Any) -> Iterator[Any]:
    while found := consumer.poll(timeout_ms=10_000, max_records=_BATCH_ROWS):
        yield from found[log]


def _batch(columns: list[list[Any]]) -> pa.RecordBatch:
    types = (pa.binary(), pa.binary(), pa.int64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(_NAMES))
