"""The gain of the New Wire Format Proposal over 0.7: requests, bytes and time for 1,000 partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.v07.sender import V07Sender
from spark_kafkawire.model import Broker, Generation, TopicPartition, WireFormat
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import proposal, v07
from spark_kafkawire.protocol.connection import Connection
from spark_kafkawire.records.rows import Records

from .logs import write_log
from .measure import Figure, Run, interleaved, say
from .session import PREFIX, Bench

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
