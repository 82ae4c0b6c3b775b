"""A cluster of many partitions and brokers in a process of its own, so that it costs its client no CPU time.

It has one topic, whose partition ``p`` is led by broker ``p % brokers``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import IO, Any, Final

import pyarrow as pa

from spark_kafkawire.model import Broker
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import group_offsets, metadata
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records

from .log_broker import PRODUCER_ID, LogBroker, in_version
from .log_server import HOST, LogServer
from .made_messages import Content, made
from .memory_log import offset_count, split

TOPIC: Final = "scale"
#: Records of the batch that all partitions hold copies of.
BATCH_RECORDS: Final = 10
_OFFERED: Final = {
    api.key: VersionRange(version, version)
    for api, version in (
        *((modern.PRODUCE, 9), (modern.FETCH, 12), (modern.LIST_OFFSETS, 7), (modern.METADATA, 12)),
        *((modern.API_VERSIONS, 4), (modern.OFFSET_FETCH, 8), (modern.FIND_COORDINATOR, 4)),
        *((modern.DESCRIBE_GROUPS, 5), (modern.INIT_PRODUCER_ID, 4), (modern.ADD_OFFSETS_TO_TXN, 3)),
        *((modern.END_TXN, 3), (modern.TXN_OFFSET_COMMIT, 3)),
        *((modern.DESCRIBE_TRANSACTIONS, 0), (modern.LIST_TRANSACTIONS, 0)),
    )
}


class _Copies:
    """A log of copies of one batch. Written records are counted and dropped."""

    def __init__(self, batch: bytes, batches: int) -> None:
        self.stop_offset, self._batch = batches * BATCH_RECORDS, batch

    def read(self, offset: int, _size_max: int, /) -> bytes:
        starts = range(offset, min(self.stop_offset, offset + 10 * BATCH_RECORDS), BATCH_RECORDS)
        return b"".join(start.to_bytes(8, "big") + self._batch[8:] for start in starts)

    def append(self, batches: Buffer, /) -> int:
        first = self.stop_offset
        self.stop_offset += sum(map(offset_count, split(batches)))
        return first


class _Cluster(LogBroker):
    """All brokers. A transaction is ongoing until it is ended; no group has an offset."""

    def __init__(self, partitions: int, batches: int, brokers: list[Broker]) -> None:
        records = Records(pa.array([bytes(100)] * BATCH_RECORDS), pa.array([b"key"] * BATCH_RECORDS))
        size_max = 1 << 20
        [encoded] = encode_batches(records, batch_bytes_max=size_max, request_bytes_max=size_max, now_ms=1)
        batch = bytes(encoded.with_producer(-1, -1, -1))
        super().__init__(brokers[0], {TOPIC: [_Copies(batch, batches) for _ in range(partitions)]}, _OFFERED)
        self._brokers, self._lock, self._ended = brokers, threading.Lock(), set[str]()
        self.requests: Counter[str] = Counter()
        own: dict[Api, Callable[[Any], Content]] = {
            modern.ADD_OFFSETS_TO_TXN: lambda _: {},
            modern.END_TXN: self._end,
            modern.TXN_OFFSET_COMMIT: lambda _: {
                "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
            },
            modern.DESCRIBE_GROUPS: lambda request: {
                "groups": [{"group_id": item, "group_state": "Dead"} for item in request.groups]
            },
            modern.DESCRIBE_TRANSACTIONS: lambda request: {
                "transaction_states": [self._described(item) for item in request.transactional_ids]
            },
            modern.LIST_TRANSACTIONS: lambda _: {},
        }
        for api, answer in own.items():
            self.answer_with(api.request, partial(_made, api, answer))
        self.alter(group_offsets.OffsetFetchTopicResponse, _without_offsets)

    def answer(self, api: Api, version: int, request: Any) -> tuple[Any, int] | None:
        with self._lock:
            self.requests[api.name] += 1
        if api is modern.METADATA:
            return (self._all if request.topics is None or request.topics else self._none), version
        return super().answer(api, version, request)

    @cached_property
    def _all(self) -> metadata.MetadataResponse:
        topic, count = self.topic(TOPIC), len(self._brokers)
        led = [
            replace(item, leader_id=number % count, replica_nodes=near, isr_nodes=near)
            for number, item in enumerate(topic.partitions)
            for near in [tuple((number + more) % count for more in range(3))]
        ]
        return replace(self._none, topics=(in_version(replace(topic, partitions=tuple(led)), 12),))

    @cached_property
    def _none(self) -> metadata.MetadataResponse:
        nodes = tuple(
            metadata.MetadataBroker(node_id=item.id, host=item.host, port=item.port) for item in self._brokers
        )
        answer = metadata.MetadataResponse(brokers=nodes, cluster_id="fake", controller_id=0, topics=())
        result: metadata.MetadataResponse = in_version(answer, 12)
        return result

    def _find_coordinator(self, request: Any) -> group_offsets.FindCoordinatorResponse:
        coordinators = []
        for key in request.coordinator_keys:
            item = self._brokers[zlib.crc32(key.encode()) % len(self._brokers)]
            coordinators.append({"key": key, "node_id": item.id, "host": item.host, "port": item.port})
        result: group_offsets.FindCoordinatorResponse = made(
            group_offsets.FindCoordinatorResponse, {"coordinators": coordinators}
        )
        return result

    def _init_producer_id(self, request: Any) -> Any:
        self._ended.discard(request.transactional_id)  # ids may be used again
        return super()._init_producer_id(request)

    def _end(self, request: Any) -> Content:
        self._ended.add(request.transactional_id)
        return {}

    def _described(self, id_: str) -> Content:
        state = "CompleteCommit" if id_ in self._ended else "Ongoing"
        return {"transactional_id": id_, "transaction_state": state, "producer_id": PRODUCER_ID}


def _made(api: Api, answer: Callable[[Any], Content], request: Any) -> Any:
    assert api.response is not None
    return made(api.response, answer(request))


def _without_offsets(topics: Any, _asked: Any) -> Any:
    return tuple(
        replace(topic, partitions=tuple(replace(item, committed_offset=-1) for item in topic.partitions))
        for topic in topics
    )


def _serve(partitions: int, broker_count: int, batches: int) -> None:
    servers = [LogServer({}) for _ in range(broker_count)]
    brokers = [Broker(number, HOST, server.port) for number, server in enumerate(servers)]
    cluster = _Cluster(partitions, batches, brokers)
    assert cluster._all  # clients wait for no answer that is made first
    for server in servers:
        server.broker = cluster
        server.start()
    print(servers[0].port, flush=True)
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "grow":
            for log in cluster.logs[TOPIC][: int(argument)]:
                log.stop_offset += BATCH_RECORDS
        counted = json.dumps(cluster.requests)
        if word == "requests":
            cluster.requests.clear()
        print(counted, flush=True)


class FakeCluster:
    """A fake cluster in a process of its own, from ``with`` on."""

    def __init__(self, *, partitions: int, brokers: int, batches: int = 1) -> None:
        self.partitions, self.brokers = partitions, brokers
        self._arguments = [str(number) for number in (partitions, brokers, batches)]

    def __enter__(self) -> FakeCluster:
        command = [sys.executable, "-m", __spec__.name, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bootstrap = f"{HOST}:{self._pipe(self._process.stdout).readline().strip()}"
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
    _serve(*map(int, sys.argv[1:]))
