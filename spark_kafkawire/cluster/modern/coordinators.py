"""Coordinators of groups and transactions in modern Kafka (0.8 to 4.x): look-up, and requests to them.

    coordinators = Coordinators(metadata, net)
    coordinators.ask(FindCoordinatorRequest.for_transaction("orders-0-1"), request, read)
    coordinators.ask_many([(FindCoordinatorRequest.for_transaction("orders-0-1"), request), ...])

Every request here may be repeated, so it is retried while its coordinator moves or starts, or while the
previous transaction is still ending.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import Action, BrokerError, KafkaWireError, TransportError, quoted
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.end_txn import END_TXN, SECOND_PROTOCOL_SINCE
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.find_coordinator import (
    FIND_COORDINATOR,
    SEVERAL_SINCE,
    FindCoordinatorRequest,
)
from spark_kafkawire.protocol.modern.txn_offset_commit import TXN_OFFSET_COMMIT

from ..asking import BROKERS_AT_ONCE_MAX
from .metadata import Metadata

T = TypeVar("T")

#: Most connections to one coordinator that share many requests, and the requests per connection that make
#: another one worthwhile: a broker answers the requests of a connection one after the other, and each waits
#: until it is replicated.
_LANES_MAX: Final = 4
_LANE_REQUESTS_MIN: Final = 16
#: Seconds that a transaction may take to end before the wait counts as a failure, and seconds between two
#: requests meanwhile. Java's client also waits for 20 ms.
_ENDING_S: Final = 2.0
_ENDING_POLL_S: Final = 0.02
#: APIs that end a transaction, and that add offsets to it in the coordinator of a group.
_SECOND_PROTOCOL: Final = ((END_TXN, SECOND_PROTOCOL_SINCE), (TXN_OFFSET_COMMIT, 5))


@dataclass(frozen=True, slots=True)
class Responder:
    """The broker that responded, and the version of transactions that begin there now."""

    broker: Broker
    transaction_version: int


class Coordinators:
    """Coordinators of one cluster. Thread-safe.

    All methods raise ``BrokerError`` with the error code of the broker, and when the retries are used up that
    or a ``TransportError``; ``UnsupportedVersionError`` (fatal) with brokers before Kafka 0.11.
    """

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net
        self._known: dict[FindCoordinatorRequest, Broker] = {}

    def locate(self, wanted: Sequence[FindCoordinatorRequest]) -> None:
        """Find the coordinators of many groups and transactional ids at once. Those that are not found are
        looked up when they are needed."""
        unknown = [who for who in wanted if who not in self._known]

        def requests(client: Client) -> Sequence[FindCoordinatorRequest]:
            finds_several = client.version_of(FIND_COORDINATOR) >= SEVERAL_SINCE
            return FindCoordinatorRequest.together(unknown) if finds_several else unknown

        for response in self._metadata.ask_in_turn(requests) if unknown else ():
            for who, found in response.body.coordinators_of(response.request).items():
                if not found.error_code:
                    self._known[who] = Broker(found.node_id, found.host, found.port)

    def ask(self, who: FindCoordinatorRequest, request: object, read: Callable[[Any, Responder], T]) -> T:
        """Send a request to the coordinator of a group or transactional id, and ``read`` the response. The
        coordinator is looked up again if it has moved or does not answer."""

        def asked() -> T:
            with POOL.lend(self.of(who), self._net.connection) as client:
                response = client.request(request)
                responder = Responder(client.broker, _transaction_version(client))
            return read(response, responder)

        def once() -> T:
            try:
                return _after_the_one_before(asked)
            except KafkaWireError as error:
                if error.action is Action.REFRESH or isinstance(error, TransportError):
                    self._known.pop(who, None)
                raise

        return retried(once, self._net.request_retry)

    def ask_many(self, questions: Sequence[tuple[FindCoordinatorRequest, object]]) -> list[Any | None]:
        """Send many repeatable requests to their coordinators in parallel, pipelined on each connection.
        Returns the responses in the order of the requests; nothing is retried, and a missing response is
        None."""
        self.locate([who for who, _ in questions])
        by_broker: dict[Broker, list[int]] = defaultdict(list)
        for index, (who, _) in enumerate(questions):
            by_broker[self.of(who)].append(index)
        responses: list[Any | None] = [None] * len(questions)

        def fill(broker: Broker, lane: Sequence[int]) -> None:
            with suppress(KafkaWireError), POOL.lend(broker, self._net.connection) as client:
                came = client.pipeline(questions[index][1] for index in lane)
                for index, response in zip(lane, came, strict=True):
                    responses[index] = response.body

        lanes = [(broker, lane) for broker, own in by_broker.items() for lane in _lanes(own)]
        at_once = max(1, min(len(lanes), BROKERS_AT_ONCE_MAX))
        with ThreadPoolExecutor(at_once, "kafkawire-coordinators") as threads:
            list(threads.map(fill, *zip(*lanes, strict=True)))
        return responses

    def of(self, who: FindCoordinatorRequest) -> Broker:
        """The coordinator of a group or transactional id, looked up if it is not known."""
        if (known := self._known.get(who)) is not None:
            return known
        found = self._metadata.ask(who).coordinator_of(who.key)
        refuse(found.error_code, f"FindCoordinator of {quoted(who.key)}", found.error_message)
        return self._known.setdefault(who, Broker(found.node_id, found.host, found.port))


def _lanes(indexes: Sequence[int]) -> list[Sequence[int]]:
    """Shares of the requests for several connections."""
    count = min(_LANES_MAX, max(1, len(indexes) // _LANE_REQUESTS_MIN))
    return [indexes[first::count] for first in range(count)]


def _after_the_one_before(asked: Callable[[], T]) -> T:
    """The response once the previous transaction has ended, which takes milliseconds and is not a failure."""
    stop_s = time.monotonic() + _ENDING_S
    while True:
        try:
            return asked()
        except BrokerError as error:
            if error.code != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() > stop_s:
                raise
        time.sleep(_ENDING_POLL_S)


def refuse(code: int, place: str, reason: str | None = None) -> None:
    """Raise the ``BrokerError`` of an error code; 0 is no error."""
    if code:
        raise broker_error(code, place, reason)


def _transaction_version(client: Client) -> int:
    """The version of transactions that begin now: 2 if the cluster has enabled it, and the broker offers all
    APIs of version 2."""
    offered = all(client.version_of(api) >= since for api, since in _SECOND_PROTOCOL)
    return 2 if offered and client.transaction_version > 1 else 1
