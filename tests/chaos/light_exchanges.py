"""A whole read, a whole write and a report of the smallest size, for thousands of broken frames. The larger
ones of ``exchanges`` take twice as long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.jobs.offsets.survey import Surveyed
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records
from tests.support.log_server import Lie, LogServer, Sent
from tests.support.memory_log import MemoryLog

TOPIC: Final = "t"
#: The deadline of each request while a broker lies, and while it does not.
TIMEOUT_S: Final = 0.1
HONEST_TIMEOUT_S: Final = 30.0
RETRIES: Final = 1
VALUES: Final = [b"%d" % number * 3 for number in range(12)]
_OPTIONS: Final = {
    # A write without any is not idempotent, and asks for no identity.
    "retries": str(RETRIES),
    "retryBackoff": "1ms",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """Something that asks a broker questions: which ones, and what comes of honest answers."""

    name: str
    steps: Callable[[dict[str, str]], Any]
    apis: tuple[Api, ...]
    honest: Any

    def run(self, broker: LogServer, timeout_s: float = TIMEOUT_S) -> Any:
        """Result of the whole exchange, from the first connection on."""
        POOL.close_idle()
        BROKER_VERSIONS.forget()
        timeout = f"{timeout_s * 1000:.0f}ms"
        return self.steps(
            {"kafka.bootstrap.servers": broker.bootstrap_servers, "requestTimeout": timeout, **_OPTIONS}
        )

    def __str__(self) -> str:
        return self.name


def server(lie: Lie | None = None) -> LogServer:
    """A broker with two batches in one log."""
    return LogServer({TOPIC: [MemoryLog(*(_batch(values) for values in (VALUES[:5], VALUES[5:])))]}, lie=lie)


def _batch(values: list[bytes]) -> bytes:
    [batch] = encode_batches(
        Records(pa.array(values, pa.binary())),
        batch_bytes_max=1 << 20,
        request_bytes_max=1 << 20,
        now_ms=1_750_000_000_000,
    )
    return bytes(batch.with_producer())


def _read(options: dict[str, str]) -> list[tuple[int, bytes]]:
    """All records of the topic, as (offset, value)."""
    # A read goes on trying for two minutes, and waits for elections, unless it is told otherwise.
    options |= {"subscribe": TOPIC, "kafkaConsumer.pollTimeoutMs": "1", "fetchOffset.retryIntervalMs": "1"}
    schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    reader = KafkaWireDataSource(options).reader(schema)
    rows: list[tuple[int, bytes]] = []
    for partition in reader.partitions():
        batches: Any = reader.read(partition)
        for batch in batches:
            rows += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return rows


def _write(options: dict[str, str]) -> int:
    """Write two rows; how many the broker said it has."""
    # A write goes on trying for one minute to get an identity, and for two to deliver.
    timeout = options["requestTimeout"]
    options |= {"topic": TOPIC, "kafka.max.block.ms": "1", "kafka.delivery.timeout.ms": timeout}
    schema = StructType([StructField("value", BinaryType())])
    writer: Any = KafkaWireDataSource(options).writer(schema, False)
    rows = pa.record_batch([pa.array([b"one", b"two"], pa.binary())], names=["value"])
    message = writer.write(iter([rows]))
    writer.commit([message])
    return sum(receipt.message_count for receipt in message.receipts)


def _report(options: dict[str, str]) -> tuple[int, int, int | None, tuple[str, ...]]:
    """Bounds of the log, the offset that a group has committed in it, and the members of the group."""
    surveyed = Surveyed.of(options | {"subscribe": TOPIC, "fetchOffset.retryIntervalMs": "1"})
    [partition] = surveyed.report(["g"], lambda _: None).partitions
    assert partition.bounds is not None
    [committed] = partition.committed
    return (
        partition.bounds.earliest,
        partition.bounds.latest,
        committed,
        tuple(surveyed.cluster.groups.members("g")),
    )


READ: Final = Exchange(
    "read",
    _read,
    (modern.API_VERSIONS, modern.METADATA, modern.LIST_OFFSETS, modern.FETCH),
    list(enumerate(VALUES)),
)
WRITE: Final = Exchange(
    "write", _write, (modern.API_VERSIONS, modern.METADATA, modern.INIT_PRODUCER_ID, modern.PRODUCE), 2
)


REPORT: Final = Exchange(
    "report",
    _report,
    (modern.OFFSET_FETCH, modern.DESCRIBE_GROUPS),
    (0, len(VALUES), 1, ("m",)),
)


def honest_responses(exchange: Exchange) -> dict[Api, bytes]:
    """The last honest response to each question of the exchange, as a frame."""
    responses: dict[Api, bytes] = {}

    def listen(api: Api, frame: bytes) -> Sent:
        responses[api] = frame
        return Sent(frame)

    with server(listen) as broker:
        assert exchange.run(broker, HONEST_TIMEOUT_S) == exchange.honest
    return responses
