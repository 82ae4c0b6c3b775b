"""The codec of 0.7 without Spark, against what memory and CRC allow; its wire formats against each other."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
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
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.encoding import encode, encode_sets
from spark_kafkawire.records.rows import Records

from .ceilings import VALUE_SIZES, values
from .logs import SET_BYTES_MAX, write_log
from .measure import Figure, Run, interleaved, say, throughput
from .session import PREFIX, Bench

COMPRESSIONS: Final = ("none", "snappy", "gzip")
#: Bytes of plain messages in one call.
_CALL_SIZE: Final = FetchOptions().fetch_bytes
#: Calls in one run, so that a run takes long enough for the clock.
_CALLS: Final = 10
_HEADER: Final = struct.Struct(">ibbI")
#: Targets by value size and compression: the most times of the limit, the least times as fast.
_DECODE_TARGETS: Final = {(100, "none"): 6.0, (1024, "none"): 2.5}
_ENCODE_TARGETS: Final = {(100, "none"): 5.0}


def codec(bench: Bench) -> Iterator[Figure]:
    """Messages of all value sizes and compressions. Decoding is held against one copy of the values and one
    checksum of them, encoding against an encoder as one would first write it."""
    compiler.load()
    for value_size in VALUE_SIZES:
        say(f"codec: values of {value_size} bytes")
        column = values(value_size, _CALL_SIZE // (value_size + _HEADER.size))
        size = int(np.frombuffer(column.buffers()[1], np.int32)[len(column)])
        payload = np.frombuffer(column.buffers()[2], np.uint8)[:size]
        target = np.empty_like(payload)

        def limit(target: Any = target, payload: Any = payload) -> None:
            np.copyto(target, payload)
            isal_zlib.crc32(payload.data)

        for compression in COMPRESSIONS:
            key = value_size, compression
            data = _message_sets(column, compression)
            decodes: dict[str, Run] = {"ours": _repeated(partial(decode, data, 0)), "limit": _repeated(limit)}
            encodes: dict[str, Run] = {
                "ours": _repeated(partial(encode, column, compression)),
                "plain": partial(_straightforward_set, column),
            }
            seconds = interleaved(decodes, bench.rounds, process_time)
            times = median(seconds["ours"]) / median(seconds["limit"])
            details = _details(column, size, key, seconds["ours"])
            asked = _DECODE_TARGETS.get(key)
            yield Figure("codec decode", "times_the_limit", times, asked, at_most=True, details=details)
            seconds = interleaved(encodes, bench.rounds, process_time)
            times = _CALLS * median(seconds["plain"]) / median(seconds["ours"])
            details = _details(column, size, key, seconds["ours"])
            asked = _ENCODE_TARGETS.get(key)
            yield Figure("codec encode", "times_straightforward", times, asked, details=details)


def _repeated(call: Callable[[], object]) -> Run:
    def run() -> None:
        for _ in range(_CALLS):
            call()

    return run


def _details(
    column: pa.BinaryArray, size: int, key: tuple[int, str], seconds: list[float]
) -> dict[str, object]:
    moved = throughput(seconds, rows=_CALLS * len(column), size=_CALLS * size)
    return {"value_size": key[0], "compression": key[1], **moved}


def _message_sets(column: pa.BinaryArray, compression: str) -> bytes:
    sets = encode_sets(
        column, compression=compression, set_bytes_max=SET_BYTES_MAX, message_size_max=SET_BYTES_MAX
    )
    return b"".join(item.data for item in sets)


def _straightforward_set(column: pa.BinaryArray) -> bytes:
    """The message set of the values by ``struct`` and ``join``, uncompressed."""
    parts: list[bytes] = []
    for value in column.to_pylist():
        parts += (_HEADER.pack(len(value) + 6, 1, 0, zlib.crc32(value)), value)
    return b"".join(parts)


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
        assert [len(item) for item in sets] == sizes

    return {
        "0.7, FETCH by FETCH": lambda: check([plain.request(item).message_set for item in fetches]),
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
        details = {"way": way, **asdict(sent), "rounds": rounds}
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
