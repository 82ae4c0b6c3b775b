"""The brokers that coordinate groups and transactions: looked for, asked, and looked for again.

    coordinators = Coordinators(metadata, net)
    coordinators.ask(FindCoordinatorRequest.for_transaction("orders-0-1"), request, read)
    coordinators.ask_many([(FindCoordinatorRequest.for_transaction("orders-0-1"), request), ...])

Every request that is asked here may be repeated, so each is retried while its coordinator moves, starts, or
is still ending the transaction before.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ...errors import Action, BrokerError, KafkaWireError, TransportError, quoted
from ...model import Broker
from ...net.client import Client
from ...net.pool import POOL
from ...net.retry import Attempts
from ...options import NetOptions
from ...protocol.modern.end_txn import END_TXN, SECOND_PROTOCOL_SINCE
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.find_coordinator import FIND_COORDINATOR, SEVERAL_SINCE, FindCoordinatorRequest
from ...protocol.modern.txn_offset_commit import TXN_OFFSET_COMMIT
from .metadata import Metadata

T = TypeVar("T")

#: Connections to one coordinator that share many requests, and how many of those are worth another one:
#: brokers answer one request of a connection after the other, and each waits until their log has it.
_LANES_MAX: Final = 4
_LANE_REQUESTS_MIN: Final = 16
#: How long a transaction may be ending before that counts as a failure to be tried again, and how often it is
#: looked at meanwhile, seconds. Java's client waits for 20 ms, too.
_ENDING_S: Final = 2.0
_ENDING_POLL_S: Final = 0.02
#: What a transaction is committed or aborted by, and held by in the coordinator of a group.
_SECOND_PROTOCOL: Final = ((END_TXN, SECOND_PROTOCOL_SINCE), (TXN_OFFSET_COMMIT, 5))


@dataclass(frozen=True, slots=True)
class Teller:
    """The broker that answered, and the protocol of a transaction that it begins now."""

    broker: Broker
    transaction_version: int


class Coordinators:
    """Coordinators of one cluster. Safe for many threads.

    All methods raise ``BrokerError`` with the code of a broker that refuses, and when the retries are used up
    that or a ``TransportError``; ``UnsupportedVersionError`` (fatal) of brokers before Kafka 0.11.
    """

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net
        self._known: dict[FindCoordinatorRequest, Broker] = {}

    def locate(self, wanted: Sequence[FindCoordinatorRequest]) -> None:
        """Look for the coordinators of many groups and transactional ids at once; who is not found so is
        looked for when it is needed."""
        unknown = [who for who in wanted if who not in self._known]

        def requests(client: Client) -> Sequence[FindCoordinatorRequest]:
            tells_of_several = client.version_of(FIND_COORDINATOR) >= SEVERAL_SINCE
            return FindCoordinatorRequest.together(unknown) if tells_of_several else unknown

        for reply in self._metadata.ask_in_turn(requests) if unknown else ():
            for who, found in reply.body.coordinators_of(reply.request).items():
                if not found.error_code:
                    self._known[who] = Broker(found.node_id, found.host, found.port)

    def ask(self, who: FindCoordinatorRequest, request: object, read: Callable[[Any, Teller], T]) -> T:
        """What the coordinator of a group or transactional id answers, read; it is looked for anew where it
        moved or does not answer."""

        def asked() -> T:
            with POOL.lend(self.of(who), self._net.connection) as client:
                reply = client.request(request)
                teller = Teller(client.broker, _transaction_version(client))
            return read(reply, teller)

        def once() -> T:
            try:
                return _after_the_one_before(asked)
            except KafkaWireError as error:
                if error.action is Action.REFRESH or isinstance(error, TransportError):
                    self._known.pop(who, None)
                raise

        return self.retried(once)

    def ask_many(self, questions: Sequence[tuple[FindCoordinatorRequest, object]]) -> list[Any | None]:
        """The replies to many requests that may be repeated, in their order, sent to all coordinators side by
        side, and on each connection one behind the other. Nothing is tried again: where no reply came it is
        None."""
        self.locate([who for who, _ in questions])
        by_broker: dict[Broker, list[int]] = defaultdict(list)
        for index, (who, _) in enumerate(questions):
            by_broker[self.of(who)].append(index)
        replies: list[Any | None] = [None] * len(questions)

        def fill(broker: Broker, lane: Sequence[int]) -> None:
            with suppress(KafkaWireError), POOL.lend(broker, self._net.connection) as client:
                came = client.pipeline(questions[index][1] for index in lane)
                for index, reply in zip(lane, came, strict=True):
                    replies[index] = reply.body

        lanes = [(broker, lane) for broker, own in by_broker.items() for lane in _lanes(own)]
        with ThreadPoolExecutor(max(len(lanes), 1), "kafkawire-coordinators") as threads:
            list(threads.map(fill, *zip(*lanes, strict=True)))
        return replies

    def retried(self, attempt: Callable[[], T]) -> T:
        """What comes of an attempt that asks a broker; made again where that may help."""
        return Attempts(self._net.retry, patience_s=self._net.request_timeout_s).run(attempt)

    def of(self, who: FindCoordinatorRequest) -> Broker:
        """The coordinator of a group or transactional id, looked for where it is not known."""
        if (known := self._known.get(who)) is not None:
            return known
        found = self._metadata.ask(who).coordinator_of(who.key)
        refuse(found.error_code, f"FindCoordinator of {quoted(who.key)}", found.error_message)
        return self._known.setdefault(who, Broker(found.node_id, found.host, found.port))


def _lanes(indexes: Sequence[int]) -> list[Sequence[int]]:
    """Shares of them for some connections."""
    count = min(_LANES_MAX, max(1, len(indexes) // _LANE_REQUESTS_MIN))
    return [indexes[first::count] for first in range(count)]


def _after_the_one_before(asked: Callable[[], T]) -> T:
    """The answer once the transaction before has ended: that takes some milliseconds, and is no failure."""
    stop_s = time.monotonic() + _ENDING_S
    while True:
        try:
            return asked()
        except BrokerError as error:
            if error.code != ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() > stop_s:
                raise
        time.sleep(_ENDING_POLL_S)


def refuse(code: int, place: str, reason: str | None = None) -> None:
    """Raises the ``BrokerError`` of an error code, if it is one."""
    if code:
        raise broker_error(code, place, reason)


def _transaction_version(client: Client) -> int:
    """The protocol of a transaction that begins now: the second one where the cluster agreed on it, and all
    that belongs to it is offered."""
    offered = all(client.version_of(api) >= since for api, since in _SECOND_PROTOCOL)
    return 2 if offered and client.transaction_version > 1 else 1
