"""A request of a killed attempt, delayed on its way until the write has ended; and slow replication.

``killed_and_late`` is a whole story: a write of several processes, one of which, or all, are killed while a
request is held up.
"""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from spark_kafkawire.cluster.modern.list_offsets import all_bounds
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.protocol.modern.produce import ProduceResponse
from spark_kafkawire.protocol.modern.transactions import (
    ONGOING,
    AddPartitionsToTxnResponse,
    TxnOffsetCommitResponse,
)
from tests.chaos.frames import KafkaView, Spoken, View
from tests.chaos.proxy import HOST, Proxy, Upstream

from . import librdkafka
from .exactly_once import OnceWrite, committed
from .polling import GRACE_S
from .write_process import WriteProcess

#: What stands before a request's and a response's body, bytes.
_LENGTH_BYTES: Final = 4
#: A write of ``killed_and_late``.
PARTITIONS: Final = 3
TASKS: Final = 2
ROWS: Final = 12
VALUES: Final = sorted(b"row %d" % number for number in range(TASKS * ROWS))
#: How the transactional id, and the group, of a driver end.
_DRIVER: Final = "-driver"


class Cut(ConnectionError):
    """The connection ends, with both its ends."""


class LateRequest:
    """The first request of a kind that an attempt sends from ``arm`` on. Safe for the threads of all
    connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._api: Api | None = None
        self._cut: Api | None = None
        self._strike: Callable[[int], Any] = lambda _: None
        self._frame = b""
        self._upstream_port = 0

    @property
    def is_held(self) -> bool:
        """True if a request is held."""
        return bool(self._frame)

    def arm(self, api: Api, strike: Callable[[int], Any], *, cuts_others: bool = False) -> None:
        """Wait for a request of this kind; ``strike`` gets the client's port. With ``cuts_others`` no later
        one of the kind gets through either."""
        with self._lock:
            self._api, self._strike, self._frame = api, strike, b""
            self._cut = api if cuts_others else None

    def keeps(self, frame: bytes, upstream_port: int, client_port: int) -> bool:
        """True if a request is kept, and not sent."""
        body = memoryview(frame)[_LENGTH_BYTES:]
        api, _, _ = modern.DIALECT.read_request_header(body)
        with self._lock:
            if api is not self._api:
                return api is self._cut
            id_ = _id_of(modern.DIALECT.read_request(body)[1])
            if not id_ or id_.endswith(_DRIVER):
                return False
            self._api, self._frame, self._upstream_port = None, frame, upstream_port
        self._strike(client_port)
        return True

    def release(self) -> list[int]:
        """Bring it to its broker: the codes of the answer, of all partitions."""
        assert self._frame, "no request was kept"
        body = memoryview(self._frame)[_LENGTH_BYTES:]
        api, header, _ = modern.DIALECT.read_request_header(body)
        with socket.create_connection((HOST, self._upstream_port), GRACE_S) as sock:
            sock.sendall(self._frame)
            with sock.makefile("rb") as came:
                answer = memoryview(came.read(int.from_bytes(came.read(_LENGTH_BYTES), "big")))
        response = modern.DIALECT.read_response(api, answer, header.api_version, header.correlation_id)
        return _codes_of(response)


class HoldingProxy(Proxy):
    """A proxy of brokers in which a request is late."""

    def __init__(self, ports: Sequence[int], late: LateRequest) -> None:
        self._late = late
        self._upstreams = [Upstream(f"broker {port}", port, "kafka") for port in ports]
        super().__init__(self._upstreams)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses that clients connect to in place of the brokers."""
        return _addresses([self.port(upstream.name) for upstream in self._upstreams])

    def view(self, upstream: Upstream, client_port: int) -> View:
        """Its view."""
        ports = {item.port: self.port(item.name) for item in self._upstreams}
        return _HoldingView(ports, self.spoken, self._late, (upstream.port, client_port))


class _HoldingView(KafkaView):
    def __init__(
        self, ports: Mapping[int, int], spoken: Spoken, late: LateRequest, place: tuple[int, int]
    ) -> None:
        super().__init__(ports, spoken)
        self._late, self._place = late, place

    def request(self, frame: bytes) -> None:
        """As any, unless it is kept. Raises ``Cut``."""
        if self._late.keeps(frame, *self._place):
            raise Cut("its process is gone")
        super().request(frame)


@dataclass(frozen=True, slots=True)
class Left:
    """State when a late request has arrived: the codes of its answer, the ids that have an open transaction,
    the partitions whose readers of committed records wait, and the rows that those readers see."""

    codes: list[int]
    open_ids: list[str]
    waiting: dict[int, int]
    rows: list[bytes]


def killed_and_late(
    writes: WriteProcess, ports: Sequence[int], api: Api, options: Mapping[str, str], *, kills_run: bool
) -> Left:
    """A write of which an attempt is killed while its first request of a kind is on its way; with
    ``kills_run`` the driver, too, and the write is run again. It ends well, then the request comes."""
    servers, late, draw = _addresses(ports), LateRequest(), random.Random(1)
    topic = librdkafka.create_topic(servers, PARTITIONS, None, {})

    def kill(client_port: int) -> None:
        assert writes.kill_worker(client_port, draw), "no worker has that port"
        if kills_run:
            writes.kill_driver()

    with HoldingProxy(ports, late) as proxy:
        connection = {"kafka.bootstrap.servers": proxy.bootstrap_servers, "topic": topic}
        options = {"delivery": "exactly-once", "kafka.transactional.id": topic, **options, **connection}
        asked = {"write": options, "mark": "row", "tasks": TASKS, "rows": ROWS}
        writes.start()
        late.arm(api, kill)
        ended = writes.ask(asked)
        assert late.is_held, ended
        if kills_run:
            assert ended is None
            ended = writes.ask(asked)
        assert ended == {"error": None}
        codes = late.release()
    return Left(
        codes, open_ids(servers, topic), waiting(servers, topic), committed(servers, topic, PARTITIONS)
    )


def failed_and_late(ports: Sequence[int], topic: str, options: Mapping[str, str]) -> list[int]:
    """An attempt fails because nobody answers its first Produce request, and the request comes when the
    attempt has given up: the codes of its answer."""
    late, has_failed = LateRequest(), threading.Event()
    with HoldingProxy(ports, late) as proxy:
        options = {"kafka.transactional.id": topic, "kafka.delivery.timeout.ms": "2000", **options}
        options |= {"kafka.request.timeout.ms": "1000"}
        write = OnceWrite(proxy.bootstrap_servers, topic, [[(b"late", 0)], [(b"b", 1)]], options)
        made = write.writer()
        late.arm(modern.PRODUCE, lambda _: has_failed.wait(GRACE_S), cuts_others=True)
        try:
            with pytest.raises(DeliveryError):
                write.message(made, 0)
        finally:
            has_failed.set()
        return late.release()


def waiting(bootstrap_servers: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    """Partitions in which readers of what is committed wait, with how many offsets they wait for."""
    options = WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    topic_partitions = [TopicPartition(topic, number) for number in range(partitions)]
    stable = all_bounds(metadata, topic_partitions, options.net, READ_COMMITTED)
    ends = all_bounds(metadata, topic_partitions, options.net)
    lags = {tp.partition: ends[tp].latest - stable[tp].latest for tp in topic_partitions}
    return {partition: lag for partition, lag in lags.items() if lag}


def open_ids(bootstrap_servers: str, prefix: str) -> list[str]:
    """Transactional ids that begin so and have a transaction open."""
    options = WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    listed = Transactions(metadata, options.net).listed((ONGOING,))
    return [item.transactional_id for item in listed if item.transactional_id.startswith(prefix)]


def _addresses(ports: Sequence[int]) -> str:
    return ",".join(f"{HOST}:{port}" for port in ports)


def _id_of(request: Any) -> str:
    for field in ("transactional_id", "v3_and_below_transactional_id"):
        if name := getattr(request, field, None):
            return str(name)
    return str(next(iter(getattr(request, "transactional_ids", ())), ""))


def _codes_of(response: Any) -> list[int]:
    """The error codes of all partitions of an answer, or its own."""
    match response:
        case ProduceResponse():
            return [part.error_code for topic in response.responses for part in topic.partition_responses]
        case AddPartitionsToTxnResponse():
            topics = response.results_by_topic_v3_and_below
            return [part.partition_error_code for topic in topics for part in topic.results_by_partition]
        case TxnOffsetCommitResponse():
            return [part.error_code for topic in response.topics for part in topic.partitions]
    return [response.error_code]


class SlowReplication(Proxy):
    """A proxy of one broker whose log of transactions is slow to replicate, as that of several brokers is:
    the ids of attempts take ``replication_ms``, those of drivers no time. ``refused`` counts the requests of
    each id that were refused.

    An InitProducerId with a shorter transaction timeout is answered COORDINATOR_NOT_AVAILABLE: Apache Kafka
    takes that timeout as the time limit of the append. Unlike there, the id is taken over all the same.
    Source: KAFKA-16047; answers of three brokers 3.9.1 and 4.1.1.
    """

    def __init__(self, port: int, replication_ms: float) -> None:
        super().__init__((Upstream("broker", port, "kafka"),))
        self.replication_ms = replication_ms
        self.refused: Counter[str] = Counter()

    @property
    def bootstrap_servers(self) -> str:
        """Address that clients connect to in place of the broker."""
        return f"{HOST}:{self.port('broker')}"

    def view(self, upstream: Upstream, client_port: int) -> View:
        """Its view."""
        del client_port
        return _SlowView({upstream.port: self.port(upstream.name)}, self.spoken, self)


class _SlowView(KafkaView):
    def __init__(self, ports: Mapping[int, int], spoken: Spoken, proxy: SlowReplication) -> None:
        super().__init__(ports, spoken)
        self._proxy = proxy
        self._begun: dict[int, tuple[int, Any]] = {}

    def request(self, frame: bytes) -> None:
        """As any; notes what begins an id."""
        super().request(frame)
        body = memoryview(frame)[_LENGTH_BYTES:]
        api, header, _ = modern.DIALECT.read_request_header(body)
        if api is modern.INIT_PRODUCER_ID:
            self._begun[header.correlation_id] = header.api_version, modern.DIALECT.read_request(body)[1]

    def response(self, frame: bytes) -> bytes:
        """As any, or that the log was not replicated in time."""
        correlation_id = int.from_bytes(frame[_LENGTH_BYTES : 2 * _LENGTH_BYTES], "big")
        version, request = self._begun.pop(correlation_id, (0, None))
        if request is None or not request.transactional_id or request.transactional_id.endswith(_DRIVER):
            return super().response(frame)
        if request.transaction_timeout_ms >= self._proxy.replication_ms:
            return super().response(frame)
        self._proxy.refused[request.transactional_id] += 1
        body = memoryview(frame)[_LENGTH_BYTES:]
        honest = modern.DIALECT.read_response(modern.INIT_PRODUCER_ID, body, version, correlation_id)
        refusal = replace(honest, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        parts = modern.DIALECT.write_response(modern.INIT_PRODUCER_ID, refusal, version, correlation_id)
        return b"".join(parts)
