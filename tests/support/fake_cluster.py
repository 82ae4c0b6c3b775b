"""A fake cluster that costs less than its client: one process, prebuilt answers, no log.

    with FakeCluster(partitions=10_000, brokers=10) as cluster:
        ...                             # kafka.bootstrap.servers = cluster.bootstrap
        cluster.grow(100)               # a batch more in each of the first 100 partitions
        cluster.requests()              # requests since the last look, by API

It has one topic, whose partition ``p`` is led by broker ``p % brokers``. Each partition holds copies of one
batch. Written records are counted and dropped. Source of the layouts: Apache Kafka's message definitions.
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records

from . import fake_coordinators as coordinators
from .fake_coordinators import NONE, read_varint, text, varint

TOPIC: Final = "scale"
#: Records of the batch that all partitions hold copies of.
BATCH_RECORDS: Final = 10
_LEADER_EPOCH: Final = 5
#: By API key: the name, and the version, with compact lengths.
_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _API_VERSIONS = 0, 1, 2, 3, 18
_APIS: Final[Mapping[int, tuple[str, int]]] = {
    _PRODUCE: ("Produce", 9),
    _FETCH: ("Fetch", 12),
    _LIST_OFFSETS: ("ListOffsets", 7),
    _METADATA: ("Metadata", 12),
    _API_VERSIONS: ("ApiVersions", 4),
    **coordinators.APIS,
}
_EARLIEST: Final = -2
_PARTITION: Final = np.dtype(
    [
        ("error", ">i2"),
        ("index", ">i4"),
        ("leader", ">i4"),
        ("epoch", ">i4"),
        ("replica_count", "u1"),
        ("replicas", ">i4", 3),
        ("isr_count", "u1"),
        ("isr", ">i4", 3),
        ("offline_count", "u1"),
        ("tags", "u1"),
    ]
)
_ASKED: Final = np.dtype([("index", ">i4"), ("epoch", ">i4"), ("timestamp", ">i8"), ("tags", "u1")])
_FOUND: Final = np.dtype(
    [
        ("index", ">i4"),
        ("error", ">i2"),
        ("timestamp", ">i8"),
        ("offset", ">i8"),
        ("epoch", ">i4"),
        ("tags", "u1"),
    ]
)
_FETCHED: Final = struct.Struct(">ihqqqBi")
_APPENDED: Final = struct.Struct(">ihqqqBBB")


class _Cluster:
    """All brokers. Methods named as APIs take the body of a request, and give that of its answer."""

    def __init__(self, partition_count: int, batches: int) -> None:
        self.ends = np.full(partition_count, batches * BATCH_RECORDS, np.int64)
        self.requests: Counter[str] = Counter()
        records = Records(pa.array([bytes(100)] * BATCH_RECORDS), pa.array([b"key"] * BATCH_RECORDS))
        size_max = 1 << 20
        [encoded] = encode_batches(records, batch_bytes_max=size_max, request_bytes_max=size_max, now_ms=1)
        self._batch = bytes(encoded.with_producer(-1, -1, -1))
        keys = b"".join(struct.pack(">hhhB", key, each, each, 0) for key, (_, each) in _APIS.items())
        self._versions = bytes(2) + varint(len(_APIS) + 1) + keys + bytes(4) + NONE
        self._coordinators = coordinators.Coordinators(TOPIC)
        self._metadata: bytes = b""
        self._without_topics: bytes = b""
        self._answers: dict[int, Callable[[bytes], bytes]] = {
            _PRODUCE: self._produce,
            _FETCH: self._fetch,
            _LIST_OFFSETS: self._list_offsets,
            _METADATA: lambda body: self._without_topics if body[0] == 1 else self._metadata,
            _API_VERSIONS: lambda _: self._versions,
            **self._coordinators.answers,
        }

    def describe(self, ports: list[int]) -> None:
        """Build the answer to Metadata."""
        self._coordinators.ports = ports
        count, broker_count = len(self.ends), len(ports)
        brokers = b"".join(
            struct.pack(">i", number) + text("127.0.0.1") + struct.pack(">iBB", port, 0, 0)
            for number, port in enumerate(ports)
        )
        partitions = np.zeros(count, _PARTITION)
        partitions["index"] = np.arange(count)
        partitions["leader"] = leaders = np.arange(count) % broker_count
        partitions["epoch"] = _LEADER_EPOCH
        partitions["replica_count"] = partitions["isr_count"] = 4
        for number in range(3):
            partitions["replicas"][:, number] = partitions["isr"][:, number] = (
                leaders + number
            ) % broker_count
        partitions["offline_count"] = 1
        start = bytes(4) + varint(broker_count + 1) + brokers + text("fake") + bytes(4)
        topic = bytes(2) + text(TOPIC) + b"scale-topic-0123" + NONE + varint(count + 1)
        self._metadata = (
            start + varint(2) + topic + partitions.tobytes() + struct.pack(">iBB", -(1 << 31), 0, 0)
        )
        self._without_topics = start + varint(1) + NONE

    def answer(self, frame: bytes) -> bytes:
        """The framed answer to a framed request."""
        key, version, correlation, name_size = struct.unpack_from(">hhih", frame)
        name, offered = _APIS[key]
        if version != offered:
            raise ValueError(f"version {version} of API {key} was not offered")
        self.requests[name] += 1
        body = self._answers[key](frame[10 + max(name_size, 0) + 1 :])
        header = struct.pack(">i", correlation) + (b"" if key == _API_VERSIONS else NONE)
        return struct.pack(">i", len(header) + len(body)) + header + body

    def _list_offsets(self, body: bytes) -> bytes:
        topics, pos = read_varint(body, 5)
        if topics == 1:
            return bytes(4) + varint(1) + NONE
        size, pos = read_varint(body, pos)
        count, pos = read_varint(body, pos + size - 1)
        asked = np.frombuffer(body, _ASKED, count - 1, pos)
        found = np.zeros(len(asked), _FOUND)
        found["index"] = asked["index"]
        found["timestamp"] = -1
        found["offset"] = np.where(asked["timestamp"] == _EARLIEST, 0, self.ends[asked["index"]])
        found["epoch"] = _LEADER_EPOCH
        return bytes(4) + varint(2) + text(TOPIC) + varint(count) + found.tobytes() + NONE * 2

    def _fetch(self, body: bytes) -> bytes:
        _, pos = read_varint(body, 25)
        size, pos = read_varint(body, pos)
        count, pos = read_varint(body, pos + size - 1)
        parts = []
        for _ in range(count - 1):
            index, _, offset = struct.unpack_from(">iiq", body, pos)
            pos += 33
            end = int(self.ends[index])
            starts = range(offset, min(end, offset + 10 * BATCH_RECORDS), BATCH_RECORDS)
            records = b"".join(struct.pack(">q", start) + self._batch[8:] for start in starts)
            parts += [_FETCHED.pack(index, 0, end, end, 0, 0, -1), varint(len(records) + 1), records, NONE]
        return bytes(10) + varint(2) + text(TOPIC) + varint(count) + b"".join(parts) + NONE * 2

    def _produce(self, body: bytes) -> bytes:
        size, pos = read_varint(body, 0)
        topics, pos = read_varint(body, pos + max(size - 1, 0) + 6)
        size, pos = read_varint(body, pos)
        count, pos = read_varint(body, pos + size - 1)
        parts = []
        for _ in range(count - 1):
            (index,) = struct.unpack_from(">i", body, pos)
            size, pos = read_varint(body, pos + 4)
            (records,) = struct.unpack_from(">i", body, pos + 57)
            pos += size
            parts.append(_APPENDED.pack(index, 0, int(self.ends[index]), -1, 0, 1, 0, 0))
            self.ends[index] += records
        return varint(topics) + text(TOPIC) + varint(count) + b"".join(parts) + NONE + bytes(4) + NONE


class _Connection(asyncio.Protocol):
    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            stop = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < stop:
                return
            frame = bytes(self._received[4:stop])
            del self._received[:stop]
            self._transport.write(self._cluster.answer(frame))


async def _serve(partition_count: int, broker_count: int, batches: int) -> None:
    loop, cluster = asyncio.get_running_loop(), _Cluster(partition_count, batches)
    servers = [
        await loop.create_server(partial(_Connection, cluster), "127.0.0.1", 0, backlog=256)
        for _ in range(broker_count)
    ]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    cluster.describe(ports)
    print(ports[0], flush=True)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        word, _, argument = line.decode().strip().partition(" ")
        if word == "grow":
            cluster.ends[: int(argument)] += BATCH_RECORDS
        print(json.dumps(cluster.requests), flush=True)
        if word == "requests":
            cluster.requests.clear()


class FakeCluster:
    """A fake cluster in a process of its own, from ``with`` on."""

    def __init__(self, *, partitions: int, brokers: int, batches: int = 1) -> None:
        self.partitions, self.brokers = partitions, brokers
        self._arguments = [str(number) for number in (partitions, brokers, batches)]

    def __enter__(self) -> FakeCluster:
        command = [sys.executable, "-m", __spec__.name, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bootstrap = f"127.0.0.1:{self._pipe(self._process.stdout).readline().strip()}"
        return self

    def grow(self, partitions: int) -> None:
        """Append a batch to each of the first partitions."""
        self._say(f"grow {partitions}")

    def requests(self) -> Counter[str]:
        """Requests since the last look, by API."""
        return Counter(self._say("requests"))

    def _say(self, line: str) -> Any:
        pipe = self._pipe(self._process.stdin)
        pipe.write(f"{line}\n")
        pipe.flush()
        return json.loads(self._pipe(self._process.stdout).readline())

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    asyncio.run(_serve(*map(int, sys.argv[1:])))
