"""Requests to brokers: pipelined on one connection, and to many brokers at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from ..errors import KafkaWireError
from ..model import Broker
from ..net.client import PIPELINE_DEPTH, Client
from ..net.retry import Attempts
from ..options import NetOptions

T = TypeVar("T")

#: Brokers that are asked at the same time, one thread each.
BROKERS_AT_ONCE_MAX: Final = 32


def _unchanged(error: KafkaWireError) -> KafkaWireError:
    return error


def ask(
    broker: Broker,
    requests: Sequence[Any],
    net: NetOptions,
    place_of: Callable[[Any], str],
    explain: Callable[[KafkaWireError], KafkaWireError] = _unchanged,
) -> list[Any]:
    """The bodies of the replies to repeatable requests, in their order.

    A connection that fails is replaced, and the requests go on from the first one that was not
    answered. Errors start with ``place_of`` that request. Another error that ``explain`` makes of
    one is raised at once: a broker that restarts closes connections, and so does one that rejects a
    request. Raises ``TransportError`` when the retries are used up, ``ProtocolError`` (fatal).
    """
    replies: list[Any] = []
    attempts = Attempts(net.retry)
    depth = PIPELINE_DEPTH
    while (answered := len(replies)) < len(requests):
        try:
            with Client.connect(broker, net.connection) as client:
                for reply in client.pipeline(requests[answered:], depth):
                    replies.append(reply.body)
                    attempts.progressed()
        except KafkaWireError as error:
            # A broker closes the connection on a request that it rejects, and replies in flight may be
            # lost with it. Sent alone, the request at fault is the one without a reply.
            depth = PIPELINE_DEPTH if len(replies) > answered else 1
            if (reason := explain(error)) is not error:
                raise reason from error
            attempts.failed(error.located(place_of(requests[len(replies)])))
    return replies


def side_by_side(brokers: Iterable[Broker], question: Callable[[Broker], T]) -> dict[Broker, T]:
    """``question`` put to each broker at the same time; the error of the first broker that fails."""
    brokers = sorted(brokers)
    if len(brokers) <= 1:  # a thread would cost more than the question
        return {broker: question(broker) for broker in brokers}
    with ThreadPoolExecutor(min(len(brokers), BROKERS_AT_ONCE_MAX), "kafkawire-ask") as pool:
        return dict(zip(brokers, pool.map(question, brokers), strict=True))
