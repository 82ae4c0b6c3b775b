"""The codecs of 0.7 and of record batches (magic 2) without Spark, against what memory and CRC allow."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from isal import isal_zlib

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.v07.sender import V07Sender
from spark_kafkawire.model import Broker, Generation, TopicPartition, WireFormat
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.options import FetchOptions, WriteOptions
from spark_kafkawire.protocol import proposal, v07
from spark_kafkawire.protocol.connection import Connection
from spark_kafkawire.records import compiler
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.encoding import encode, encode_sets
from spark_kafkawire.records.record_log import decode_batches, encode_batches
from spark_kafkawire.records.rows import Records

from .ceilings import VALUE_SIZES, values
from .logs import BATCH_BYTES_MAX, SET_BYTES_MAX, write_log
from .measure import Figure, Run, interleaved, say, throughput
from .session import PREFIX, Bench

COMPRESSIONS: Final = ("none", "snappy", "gzip")
MODERN_COMPRESSIONS: Final = ("none", "lz4", "zstd", "snappy", "gzip")
#: Bytes of plain messages in one call.
_CALL_SIZE: Final = FetchOptions().fetch_bytes
#: Calls in one run, so that a run takes long enough for the clock.
_CALLS: Final = 10
_HEADER: Final = struct.Struct(">ibbI")
#: Columns that are decoded: what a copy and a checksum of the values are a limit for.
_WANTED: Final = ("offset", "value")
_NOW_MS: Final = 1_750_000_000_000
_OFFSET_BYTES: Final = 8
Targets = Mapping[tuple[int, str], float]


@dataclass(frozen=True, slots=True)
class _Format:
    """A format: its name in figures, about what a message takes beside its value, how a column is encoded
    and as one would first write it, how what ``encoded`` gives is decoded, its checksum, and the targets."""

    name: str
    overhead: int
    encode: Callable[[pa.BinaryArray, str], object]
    straightforward: Callable[[pa.BinaryArray], object]
    encoded: Callable[[pa.BinaryArray, str], bytes]
    decode: Callable[[bytes], object]
    checksum: Callable[[memoryview], int]
    decode_targets: Targets
    encode_targets: Targets


def codec(bench: Bench) -> Iterator[Figure]:
    """Messages of 0.7, all value sizes and compressions."""
    for value_size in VALUE_SIZES:
        yield from _measured(bench, _MESSAGES, value_size, COMPRESSIONS)


def batch_codec(bench: Bench) -> Iterator[Figure]:
    """Record batches, all value sizes and compressions."""
    for value_size in VALUE_SIZES:
        yield from _measured(bench, _BATCHES, value_size, MODERN_COMPRESSIONS)


def _measured(
    bench: Bench, format: _Format, value_size: int, compressions: tuple[str, ...]
) -> Iterator[Figure]:
    compiler.load()
    say(f"codec{format.name}: values of {value_size} bytes")
    column = values(value_size, _CALL_SIZE // (value_size + format.overhead))
    for measure in (_decode, _encode):
        for compression in compressions:
            yield measure(bench, format, column, value_size, compression)


def _decode(
    bench: Bench, format: _Format, column: pa.BinaryArray, value_size: int, compression: str
) -> Figure:
    """Time over the limit: one copy of the values and one checksum of them."""
    data = format.encoded(column, compression)
    payload = np.frombuffer(column.buffers()[2], np.uint8)[: _value_bytes(column)]
    target = np.empty_like(payload)

    def ours() -> None:
        for _ in range(_CALLS):
            format.decode(data)

    def limit() -> None:
        for _ in range(_CALLS):
            np.copyto(target, payload)
            format.checksum(payload.data)

    seconds = interleaved({"ours": ours, "limit": limit}, bench.rounds, process_time)
    return Figure(
        f"codec decode{format.name}",
        "times_the_limit",
        median(seconds["ours"]) / median(seconds["limit"]),
        format.decode_targets.get((value_size, compression)),
        at_most=True,
        details=_details(column, value_size, compression, seconds["ours"]),
    )


def _encode(
    bench: Bench, format: _Format, column: pa.BinaryArray, value_size: int, compression: str
) -> Figure:
    """Rows per second over an encoder as one would first write it."""

    def ours() -> None:
        for _ in range(_CALLS):
            format.encode(column, compression)

    runs = {"ours": ours, "plain": lambda: format.straightforward(column)}
    seconds = interleaved(runs, bench.rounds, process_time)
    return Figure(
        f"codec encode{format.name}",
        "times_straightforward",
        _CALLS * median(seconds["plain"]) / median(seconds["ours"]),
        format.encode_targets.get((value_size, compression)),
        details=_details(column, value_size, compression, seconds["ours"]),
    )


def _details(
    column: pa.BinaryArray, value_size: int, compression: str, seconds: list[float]
) -> dict[str, object]:
    moved = throughput(seconds, rows=_CALLS * len(column), size=_CALLS * _value_bytes(column))
    return {"value_size": value_size, "compression": compression, **moved}


def _value_bytes(column: pa.BinaryArray) -> int:
    return int(np.frombuffer(column.buffers()[1], np.int32)[len(column)])


def _message_sets(column: pa.BinaryArray, compression: str) -> bytes:
    sets = encode_sets(
        column, compression=compression, set_bytes_max=SET_BYTES_MAX, message_size_max=SET_BYTES_MAX
    )
    return b"".join(each.data for each in sets)


def _straightforward_set(column: pa.BinaryArray) -> bytes:
    """The message set of the values by ``struct`` and ``join``, uncompressed."""
    parts: list[bytes] = []
    for value in column.to_pylist():
        parts += (_HEADER.pack(len(value) + 6, 1, 0, zlib.crc32(value)), value)
    return b"".join(parts)


def _batches(column: pa.BinaryArray, compression: str) -> Iterator[bytes | bytearray | memoryview]:
    batches = encode_batches(
        Records(column),
        compression=compression,
        batch_bytes_max=BATCH_BYTES_MAX,
        request_bytes_max=BATCH_BYTES_MAX,
        now_ms=_NOW_MS,
    )
    offset = 0
    for batch in batches:
        # As a broker does, which no reader takes an offset from twice.
        batch.data[:_OFFSET_BYTES] = offset.to_bytes(_OFFSET_BYTES, "big")
        yield batch.with_producer()
        offset += batch.count


def _straightforward_batch(column: pa.BinaryArray) -> bytes:
    """The records of one batch, uncompressed, with its checksum."""
    parts: list[bytes] = []
    for row, value in enumerate(column.to_pylist()):
        body = b"".join((b"\0\0", _varint(row), b"\1", _varint(len(value)), value, b"\0"))
        parts += (_varint(len(body)), body)
    records = b"".join(parts)
    return crc32c(records).to_bytes(4, "big") + records


def _varint(value: int) -> bytes:
    rest, out = value << 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _forget(items: Iterable[object]) -> None:
    """One by one."""
    for _ in items:
        pass


_MESSAGES: Final = _Format(
    "",
    _HEADER.size,
    encode,
    _straightforward_set,
    _message_sets,
    lambda data: decode(data, 0),
    isal_zlib.crc32,
    decode_targets={(100, "none"): 6.0, (1024, "none"): 2.5},
    encode_targets={(100, "none"): 5.0},
)
_BATCHES: Final = _Format(
    " magic 2",
    8,
    lambda column, compression: _forget(_batches(column, compression)),
    _straightforward_batch,
    lambda column, compression: b"".join(_batches(column, compression)),
    lambda data: _forget(decode_batches(index_batches(data), wanted=_WANTED)),
    crc32c,
    decode_targets={(100, "none"): 5.0, (1024, "none"): 2.5},
    encode_targets={(100, "none"): 30.0},
)
_PARTITIONS: Final = 1000
_TOPIC: Final = "page-views"
#: Of each partition: ten messages of about 100 bytes.
_ROWS: Final = 10
_VALUE_SIZE: Final = 100


@dataclass(slots=True)
class _Sent:
    """Requests that went out while somebody counted, their bytes, and how many of them are answered."""

    requests: int = 0
    responses: int = 0
    request_bytes: int = 0


def wire_formats(bench: Bench) -> Iterator[Figure]:
    """One figure for each way to read, or to write to, all partitions, and to write to one."""
    say(f"wire formats: {_PARTITIONS} partitions of one topic")
    spoken = {"wire.format": "0.7,proposal"}
    with TemporaryDirectory(prefix=PREFIX) as folder:
        sizes = [
            write_log(Path(folder), f"{_TOPIC}-{partition}", value_size=_VALUE_SIZE, rows=_ROWS).size
            for partition in range(_PARTITIONS)
        ]
        with EmbeddedCluster(
            1, _PARTITIONS, zookeeper=False, log_dirs=[folder], properties=spoken
        ) as cluster:
            broker = Broker(0, cluster.brokers[0].host, cluster.brokers[0].port)
            with _clients(broker) as (plain, proposed):
                yield from _figures("read 1,000 partitions", _reads(plain, proposed, sizes), bench.rounds)
            for name, count in (("write to 1,000 partitions", _PARTITIONS), ("write to 1 partition", 1)):
                yield from _figures(name, _writes(cluster, broker, count), bench.rounds)


@contextmanager
def _clients(broker: Broker) -> Iterator[tuple[Client, Client]]:
    """Connections in 0.7 and in the proposal."""
    settings = ConnectionSettings(Generation.V07, 60.0, "spark-kafkawire")
    proposed = ConnectionSettings(Generation.V07, 60.0, "spark-kafkawire", wire_format=WireFormat.PROPOSAL)
    with Client.connect(broker, settings) as one, Client.connect(broker, proposed) as other:
        yield one, other


def _reads(plain: Client, proposed: Client, sizes: list[int]) -> dict[str, Run]:
    fetches = tuple(v07.FetchRequest(_TOPIC, partition, 0, size) for partition, size in enumerate(sizes))
    offsets = proposal.OffsetData(_TOPIC, tuple(range(_PARTITIONS)), (0,) * _PARTITIONS)
    fetch = proposal.FetchRequest(proposal.NO_REPLICA, 0, 0, (offsets,))

    def check(sets: Sequence[Any]) -> None:
        assert [len(each) for each in sets] == sizes

    return {
        "0.7, FETCH by FETCH": lambda: check([plain.request(each).message_set for each in fetches]),
        "0.7, MULTIFETCH": lambda: check(
            [response.message_set for response in plain.request(v07.MultiFetchRequest(fetches)).responses]
        ),
        "proposal": lambda: check(
            [part.messages for topic in proposed.request(fetch).data for part in topic.partition_data]
        ),
    }


def _writes(cluster: EmbeddedCluster, broker: Broker, count: int) -> dict[str, Run]:
    """A task that writes a message to each of so many partitions, its connection included."""
    value = Records(pa.array([bytes(_VALUE_SIZE)], pa.binary()))
    partitions = [TopicPartition(f"{_TOPIC}-{count}", partition, 0) for partition in range(count)]

    def write(**raw: str) -> Run:
        options = WriteOptions.parse({"broker.list": cluster.broker_list, **raw})

        def run() -> None:
            with V07Sender([broker], options) as sender:
                for partition in partitions:
                    sender.add(partition, value)
                assert len(sender.finish()) == count

        return run

    return {
        "0.7, acks=1": write(acks="1"),
        "0.7, acks=verify": write(acks="verify"),
        "proposal, acks=1": write(acks="1", wireFormat="proposal"),
    }


def _figures(what: str, ways: dict[str, Run], rounds: int) -> Iterator[Figure]:
    seconds = interleaved(ways, rounds)
    for way, run in ways.items():
        with _counting() as sent:
            run()
        details = {
            "way": way,
            "requests": sent.requests,
            "responses": sent.responses,
            "request_bytes": sent.request_bytes,
            "rounds": rounds,
        }
        yield Figure(f"{what}: {way}", "ms", 1000 * median(seconds[way]), details=details)


@contextmanager
def _counting() -> Iterator[_Sent]:
    """Counts what all connections of this process send."""
    sent, send = _Sent(), Connection.send

    def counted(connection: Connection, request: object) -> Any:
        before = connection.in_flight
        parts = send(connection, request)
        sent.requests += 1
        sent.responses += connection.in_flight - before
        sent.request_bytes += sum(map(len, parts))
        return parts

    setattr(Connection, "send", counted)  # noqa: B010  # mypy allows no plain assignment
    try:
        yield sent
    finally:
        setattr(Connection, "send", send)  # noqa: B010
