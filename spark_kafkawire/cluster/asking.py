"""Requests to brokers of both generations: pipelined on one connection, and to many brokers in parallel."""

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


def ask(
    broker: Broker,
    requests: Sequence[Any],
    net: NetOptions,
    place_of: Callable[[Any], str],
    explain: Callable[[KafkaWireError], KafkaWireError] = lambda error: error,
) -> list[Any]:
    """Send repeatable requests and return the bodies of their responses, in order.

    A connection that fails is replaced, and sending continues from the first request without a
    response. Errors start with ``place_of`` that request. If ``explain`` turns an error into another
    error, that error is raised at once: a broker closes the connection when it restarts, but also when it
    rejects a request. Raises ``TransportError`` when the retries are used up, ``ProtocolError`` (fatal).
    """
    responses: list[Any] = []
    attempts = Attempts(net.retry)
    bootstrap, depth = net.retry.bootstrap, PIPELINE_DEPTH
    with bootstrap.reaching() as contact:
        while (answered := len(responses)) < len(requests):
            within = None if bootstrap.is_answered else contact
            try:
                with Client.connect(broker, net.connection, within) as client:
                    for response in client.pipeline(requests[answered:], depth, within):
                        responses.append(response.body)
                        bootstrap.answered()
                        attempts.note_progress()
            except KafkaWireError as error:
                # A broker that rejects a request closes the connection, and responses in flight may be lost
                # with it. If requests are sent one at a time, the rejected one is the one without a response.
                depth = PIPELINE_DEPTH if len(responses) > answered else 1
                if (reason := explain(error)) is not error:
                    raise reason from error
                bootstrap.note(error)
                attempts.failed(error.locate(place_of(requests[len(responses)])))
    return responses


def side_by_side(brokers: Iterable[Broker], question: Callable[[Broker], T]) -> dict[Broker, T]:
    """Ask all brokers at the same time. Raises the error of the first broker that fails."""
    brokers = sorted(brokers)
    if len(brokers) <= 1:  # a thread would cost more than the request
        return {broker: question(broker) for broker in brokers}
    with ThreadPoolExecutor(min(len(brokers), BROKERS_AT_ONCE_MAX), "kafkawire-ask") as pool:
        return dict(zip(brokers, pool.map(question, brokers), strict=True))
