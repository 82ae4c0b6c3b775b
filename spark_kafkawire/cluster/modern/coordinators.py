"""Coordinators of groups and transactions in modern Kafka (0.8 to 4.x): look-up, and requests to them.

    coordinators = Coordinators(metadata, net)
    coordinators.ask(FindCoordinatorRequest.for_transaction("orders-0-1"), request, read)
    coordinators.ask_many([(FindCoordinatorRequest.for_transaction("orders-0-1"), request), ...])

Every request here may be repeated, so it is retried while its coordinator moves or starts, or while the
previous transaction is still ending.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import Action, BrokerError, KafkaWireError, TransportError, quoted
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import RetryPolicy, retried
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.end_txn import END_TXN, SECOND_PROTOCOL_SINCE
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.find_coordinator import (
    FIND_COORDINATOR,
    SEVERAL_SINCE,
    Coordinator,
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
#: Waits between the rounds of requests that are repeated together, and the longest of them, seconds.
_ROUNDS: Final = RetryPolicy(backoff_s=2 * _ENDING_POLL_S)
_ROUND_WAIT_MAX_S: Final = 1.0
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

    def locate(
        self, wanted: Iterable[FindCoordinatorRequest], within: Deadline | None = None
    ) -> dict[FindCoordinatorRequest, BrokerError]:
        """Find the coordinators of many groups and transactional ids at once. Returns the errors of those
        that are not found, which are looked up again when they are needed."""
        unknown = [who for who in wanted if who not in self._known]
        refused: dict[FindCoordinatorRequest, BrokerError] = {}

        def requests(client: Client) -> Sequence[FindCoordinatorRequest]:
            finds_several = client.version_of(FIND_COORDINATOR) >= SEVERAL_SINCE
            return FindCoordinatorRequest.together(unknown) if finds_several else unknown

        for response in self._metadata.ask_in_turn(requests, within) if unknown else ():
            for who, found in response.body.coordinators_of(response.request).items():
                if found.error_code:
                    refused[who] = _not_found(who, found)
                else:
                    self._known[who] = Broker(found.node_id, found.host, found.port)
        return refused

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
                self._forget_moved(who, error)
                raise

        return retried(once, self._net.request_retry)

    def ask_many(self, questions: Sequence[tuple[FindCoordinatorRequest, object]]) -> list[Any | None]:
        """Send many repeatable requests to their coordinators in parallel, pipelined on each connection.
        Returns the responses in the order of the requests; nothing is retried, and a missing response is
        None."""
        responses = self._ask_once(questions, None)
        return [None if isinstance(each, KafkaWireError) else each for each in responses]

    def ask_until(
        self,
        questions: Sequence[tuple[FindCoordinatorRequest, object]],
        refusal_of: Callable[[Any, FindCoordinatorRequest, Broker | None], KafkaWireError | None],
        within: Deadline,
        round_s: float,
    ) -> list[KafkaWireError | None]:
        """Send many repeatable requests as ``ask_many``, and those that fail with a retriable error again in
        further rounds, ``within`` one deadline. A round takes ``round_s`` seconds at most.

        ``refusal_of`` returns the error of a response, from whom the request is about and its coordinator.
        Returns the last error of each request, None for those that succeeded."""
        errors: list[KafkaWireError | None] = [None] * len(questions)
        left: Sequence[int] = range(len(questions))
        for attempt in itertools.count(1):
            asked = [questions[index] for index in left]
            for index, response in zip(left, self._ask_once(asked, within.sooner(round_s)), strict=True):
                who = questions[index][0]
                is_error = isinstance(response, KafkaWireError)
                error = response if is_error else refusal_of(response, who, self._known.get(who))
                if error is not None:
                    self._forget_moved(who, error)
                errors[index] = error
            left = [index for index in left if (error := errors[index]) is not None and error.retriable]
            if not left or not within.left_s:
                break
            time.sleep(min(_ROUNDS.wait_s(attempt, random.random()), _ROUND_WAIT_MAX_S, within.left_s))
        return errors

    def _ask_once(
        self, questions: Sequence[tuple[FindCoordinatorRequest, object]], within: Deadline | None
    ) -> list[Any]:
        """The responses of one round, and in place of a missing response its error."""
        try:
            not_found = self.locate((who for who, _ in questions), within)
        except KafkaWireError as error:
            return [error] * len(questions)
        responses: list[Any] = [None] * len(questions)
        by_broker: dict[Broker, list[int]] = defaultdict(list)
        for index, (who, _) in enumerate(questions):
            if (known := self._known.get(who)) is not None:
                by_broker[known].append(index)
            else:  # not found, or forgotten by another thread
                moved = broker_error(ErrorCode.NOT_COORDINATOR, f"FindCoordinator of {quoted(who.key)}")
                responses[index] = not_found.get(who, moved)

        def fill(broker: Broker, lane: Sequence[int]) -> None:
            left = deque(lane)
            try:
                with POOL.lend(broker, self._net.connection, within) as client:
                    for response in client.pipeline((questions[index][1] for index in lane), within=within):
                        responses[left.popleft()] = response.body
            except KafkaWireError as error:
                for index in left:
                    responses[index] = error

        lanes = [(broker, lane) for broker, own in by_broker.items() for lane in _lanes(own)]
        if lanes:
            with ThreadPoolExecutor(
                min(len(lanes), BROKERS_AT_ONCE_MAX), "kafkawire-coordinators"
            ) as threads:
                list(threads.map(fill, *zip(*lanes, strict=True)))
        return responses

    def _forget_moved(self, who: FindCoordinatorRequest, error: KafkaWireError) -> None:
        """Look a coordinator up again that has moved or does not answer."""
        if error.action is Action.REFRESH or isinstance(error, TransportError):
            self._known.pop(who, None)

    def of(self, who: FindCoordinatorRequest) -> Broker:
        """The coordinator of a group or transactional id, looked up if it is not known."""
        if (known := self._known.get(who)) is not None:
            return known
        found = self._metadata.ask(who).coordinator_of(who.key)
        if found.error_code:
            raise _not_found(who, found)
        return self._known.setdefault(who, Broker(found.node_id, found.host, found.port))


def _not_found(who: FindCoordinatorRequest, found: Coordinator) -> BrokerError:
    place = f"FindCoordinator of {quoted(who.key)}"
    return broker_error(found.error_code, place, found.error_message)


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
