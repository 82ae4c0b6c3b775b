"""Fixtures for reads of modern logs: a partition of 2,000 values, and a fetcher for a range of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.model import Leader, OffsetRange, TopicPartition
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import FetchOptions, NetOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.limits import READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
)
from spark_kafkawire.protocol.modern.metadata import MetadataBroker, MetadataRequest
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.log_broker import OFFERED
from tests.support.log_server import HOST, LogServer
from tests.support.memory_log import Log, MemoryLog
from tests.support.mock_cluster import DISCONNECT
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)
PARTITION = TopicPartition("t", 0)
COUNT = 2000
VALUES = [b"%06d" % number * 5 for number in range(COUNT)]
#: Several fetches for one partition.
SMALL = FetchOptions(fetch_bytes=4096, wait_ms=50)


FOLLOWER_ID: Final = 7

#: Error codes of Fetch after which a read goes on, and what ends a connection.
ERRORS = {
    "NOT_LEADER_OR_FOLLOWER": 6,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "REPLICA_NOT_AVAILABLE": 9,
    "KAFKA_STORAGE_ERROR": 56,
    "UNKNOWN_TOPIC_ID": 100,
    "REQUEST_TIMED_OUT": 7,
    "THROTTLING_QUOTA_EXCEEDED": 89,
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_SERVER_ERROR": -1,
    "DISCONNECT": DISCONNECT,
}


def cluster_of(bootstrap_servers: str, pool: Pool, net: NetOptions = NET) -> ModernCluster:
    metadata = Metadata(servers(bootstrap_servers), net, connections=pool)
    return ModernCluster(metadata, net, READ_UNCOMMITTED)


def fetcher_of(
    bootstrap_servers: str,
    pool: Pool,
    start: int = 0,
    stop: int = COUNT,
    options: FetchOptions = SMALL,
    net: NetOptions = NET,
    leader: Leader | None = None,
) -> Fetcher:
    cluster = cluster_of(bootstrap_servers, pool, net)
    task = FetchTask(
        OffsetRange(PARTITION, start, stop), leader or cluster.leaders_of((PARTITION,))[PARTITION]
    )
    return Fetcher(task, cluster, options, net, connections=pool)


def values(fetcher: Fetcher) -> list[bytes]:
    return [value for _, value in rows(fetcher)]


def rows(fetcher: Fetcher) -> list[tuple[int, bytes]]:
    result: list[tuple[int, bytes]] = []
    for columns in fetcher.columns():
        assert columns.values is not None
        result += zip(columns.offset.tolist(), columns.values.to_pylist(), strict=True)
    return result


def write(
    bootstrap_servers: str, written: list[bytes] = VALUES, compression: str = "none", batch_count: int = 7
) -> None:
    records = [Record(value) for value in written]
    librdkafka.produce(
        bootstrap_servers, PARTITION.topic, records, compression, batch_num_messages=batch_count
    )


def altered(server: LogServer, change: Callable[[fetch.FetchPartition], dict[str, Any]]) -> None:
    """Fetch responses with some fields changed; ``change`` gets what was asked for."""

    def fetched(request: fetch.FetchRequest) -> fetch.FetchResponse:
        [asked] = request.topics
        response: fetch.FetchResponse = honest(
            replace(request, topics=(replace(asked, topic=PARTITION.topic),))
        )
        [topic] = response.responses
        [partition] = topic.partitions
        changes = change(asked.partitions[0])
        throttle_time_ms = changes.pop("throttle_time_ms", 0)
        topics = (replace(topic, partitions=(replace(partition, **changes),)),)
        return replace(response, responses=topics, throttle_time_ms=throttle_time_ms)

    honest = server.broker.answer_with(fetch.FetchRequest, fetched)


def throttling(server: LogServer, throttles_ms: Iterator[int]) -> list[float]:
    """Fetches that are answered as by brokers whose quota is used up, without any partition, until
    ``throttles_ms`` gives 0. The times at which they came."""
    came = list[float]()

    def fetched(request: fetch.FetchRequest) -> fetch.FetchResponse:
        came.append(time.monotonic())
        throttle_time_ms = next(throttles_ms)
        if throttle_time_ms:
            return fetch.FetchResponse(throttle_time_ms=throttle_time_ms, responses=())
        response: fetch.FetchResponse = honest(request)
        return response

    honest = server.broker.answer_with(fetch.FetchRequest, fetched)
    return came


def list_offsets_as(server: LogServer, offsets: Mapping[int, int]) -> None:
    """ListOffsets responses with other offsets for some of the timestamps that are asked for."""

    def listed(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        response: ListOffsetsPartitionResponse = honest(topic, asked)
        return replace(response, offset=offsets.get(asked.timestamp, response.offset))

    honest = server.broker.answer_with(ListOffsetsPartitionResponse, listed)


@contextlib.contextmanager
def replicas(
    log: Log, other: Log | None = None, versions: VersionRange = modern.FETCH.versions
) -> Iterator[tuple[LogServer, LogServer]]:
    """A leader and the follower that it names to clients with a rack."""
    offered = {**OFFERED, modern.FETCH.key: versions}
    with (
        LogServer({"t": [log]}, offered=offered) as leader,
        LogServer({"t": [other or log]}, offered=offered) as follower,
    ):
        us = MetadataBroker(node_id=FOLLOWER_ID, host=HOST, port=follower.port, rack="near")
        leader.broker.alter(MetadataRequest, lambda honest, _: replace(honest, brokers=(*honest.brokers, us)))
        names(leader, FOLLOWER_ID)
        yield leader, follower


def names(leader: LogServer, replica_id: int) -> None:
    """Answer clients with a rack as a leader does: without records."""

    def named(honest: fetch.FetchResponse, request: fetch.FetchRequest) -> fetch.FetchResponse:
        if request.rack_id != "near":
            return honest
        [topic] = honest.responses
        parts = (replace(topic.partitions[0], preferred_read_replica=replica_id, records=b""),)
        return replace(honest, responses=(replace(topic, partitions=parts),))

    leader.broker.alter(fetch.FetchRequest, named)


class CompactedLog(MemoryLog):
    """Batches of seven of which every second one is gone, and the log's last offsets with it."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__()
        self.stop_offset, self._data = log.stop_offset, log._data
        self._all = list(zip(log._offsets, log._positions, strict=True))

    def read(self, offset: int, _size_max: int, /) -> bytes:
        ends = [*(position for _, position in self._all[1:]), len(self._data)]
        kept = [
            (start, position, end)
            for (start, position), end in zip(self._all, ends, strict=True)
            if start % 14 == 0
        ]
        for start, position, end in kept:
            if start + 7 > offset:
                return bytes(self._data[position:end])
        return b""
