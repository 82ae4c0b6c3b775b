"""Fixtures for tests of producing: options, records, a producer, and faults between it and brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing import modern
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import ConnectionLost
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.modern.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from spark_kafkawire.records.columns import HEADERS
from spark_kafkawire.records.rows import Records
from tests.support.foreign import Record
from tests.support.writing import binary

#: Backoffs that a test can wait for.
QUICK: Final = {"retryBackoff": "5ms", "requestTimeout": "10s"}
#: What happens to a Produce response on its way: nothing.
FINE: Final = 0


def options_of(servers: str, **raw: object) -> WriteOptions:
    """Options of a write, names as Python writes them."""
    given = {name.replace("__", "."): str(value) for name, value in raw.items()}
    return WriteOptions.parse({"kafka.bootstrap.servers": servers, **QUICK, **given})


def producer(options: WriteOptions) -> Producer:
    """A producer with metadata of its own."""
    return Producer(Metadata(options.discovery.bootstrap_servers, options.net), options)


def records(values: Iterable[bytes | None]) -> Records:
    """Records without keys, headers and timestamps."""
    return Records(binary(values))


def write(
    servers: str, topic: str, values: Sequence[bytes | None], partition: int = 0, **raw: object
) -> tuple[PartitionReceipt, ...]:
    """Write values to one partition as a task does."""
    with producer(options_of(servers, **raw)) as sending:
        sending.add(TopicPartition(topic, partition), records(values))
        return sending.finish()


class ResponseFaults:
    """Lets responses to Produce get lost or say something else after the broker has done its work.

    ``plan`` has one entry for each response: ``FINE``, ``"lost"`` for a connection that breaks before
    the response is there, or an error code that stands in it instead of 0.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan: deque[int | str] = deque()
        self.requests: list[ProduceRequest] = []
        self.in_flight_max = 0
        self._receive = Client.receive
        self._send = Client.send
        monkeypatch.setattr(Client, "receive", lambda client, *within: self._received(client, *within))
        monkeypatch.setattr(Client, "send", lambda client, *sent: self._sent(client, *sent))

    def _sent(self, client: Client, request: object, within: Deadline | None = None) -> None:
        self._send(client, request, within)
        if isinstance(request, ProduceRequest):
            self.requests.append(request)
            self.in_flight_max = max(self.in_flight_max, client.in_flight)

    def _received(self, client: Client, within: Deadline | None = None) -> Response:
        response = self._receive(client, within)
        if not isinstance(response.body, ProduceResponse) or not self.plan:
            return response
        fault = self.plan.popleft()
        if fault == "lost":
            client.close()
            raise ConnectionLost(f"{client.broker}: the connection broke")
        return (
            Response(response.request, _answered(response.body, int(fault)), response.frame)
            if fault
            else response
        )


def _answered(response: ProduceResponse, code: int) -> ProduceResponse:
    """The response with an error code for each partition."""
    return ProduceResponse(
        responses=tuple(
            ProduceTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    ProducePartitionResponse(index=item.index, error_code=code, base_offset=-1)
                    for item in topic.partition_responses
                ),
            )
            for topic in response.responses
        )
    )


def in_parts(values: Sequence[bytes], size: int) -> list[Sequence[bytes]]:
    """The values, ``size`` at a time."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def numbered(count: int) -> list[bytes]:
    """Values that tell their place."""
    return [b"value %d" % number for number in range(count)]


def int64(values: Sequence[int | None]) -> Any:
    """A column of numbers."""
    return pa.array(values, pa.int64())


#: Every kind of null and emptiness, headers in order and twice, old and new timestamps.
ROWS: Final = [
    Record(b"plain", b"key", (), 1_700_000_000_000),
    Record(None, b"tombstone", (), 1_700_000_000_001),
    Record(b"no key", None, (), 1),
    Record(b"", b"", (("empty", b""),), 1_700_000_000_002),
    Record(b"two", None, (("twice", b"1"), ("twice", b"2"), ("other", b"3")), 1_700_000_000_000),
    Record(b"null header", None, (("null", None),), 1_800_000_000_000),
    Record("größe".encode(), "schlüssel".encode(), (("größe", b"\xff\x00"),), 0),
]


def columns(rows: list[Record]) -> Records:
    """Records as a task has them."""
    return Records(
        values=binary([row.value for row in rows]),
        keys=binary([row.key for row in rows]),
        headers=pa.array(
            [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows], HEADERS
        ),
        timestamps_ms=int64([row.timestamp_ms for row in rows]),
    )


def content(row: Record) -> tuple[object, ...]:
    """Parts of a record that must come through."""
    return row.value, row.key, row.headers, row.timestamp_ms


def targets(servers: str, **raw: object) -> modern.ModernWritePartitions:
    """Partitions that may be written to, as the brokers say."""
    return modern.ModernWritePartitions.discover(options_of(servers, **raw))
