"""Responses that break off, lie about their length or never end, at every byte: our own errors only, in time,
in bounded memory. ``lies`` is about what whole responses say."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from spark_kafkawire.errors import MESSAGE_SIZE_MAX, KafkaWireError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from tests.support.log_server import HOST, LogServer, Sent
from tests.support.polling import GRACE_S
from tests.support.short_and_long import short_and_long

from .light_exchanges import READ, REPORT, RETRIES, TIMEOUT_S, WRITE, Exchange, honest_responses, server

#: Memory that an announced length may take before its bytes are there, beside the largest response allowed.
MEMORY_MAX: Final = 200 << 20
#: Lengths that no response has: none at all, less than its header, negative, and more than fits anywhere.
LENGTHS: Final = (0, 3, -1, -(2**31), 2**31 - 1, 1 << 30)
#: Exchanges until one gets a connection within ``TIMEOUT_S``, on a machine that is busy.
CONNECTS_MAX: Final = 10

STEPS: Final = [(exchange, api) for exchange in (READ, WRITE, REPORT) for api in exchange.apis]
each_step: Final = pytest.mark.parametrize(
    ("exchange", "api"), STEPS, ids=[f"{exchange}-{api.name}" for exchange, api in STEPS]
)


@contextmanager
def liar(about: Api) -> Iterator[tuple[LogServer, Callable[[Callable[[bytes], Sent]], None]]]:
    """A broker that is honest but about one API, and what sets its lie."""
    lie: Callable[[bytes], Sent] = Sent

    def answer(api: Api, frame: bytes) -> Sent:
        return lie(frame) if api is about else Sent(frame)

    def set_lie(new: Callable[[bytes], Sent]) -> None:
        nonlocal lie
        lie = new

    with server(answer) as broker:
        yield broker, set_lie


def outcome(exchange: Exchange, broker: LogServer) -> Any:
    """Result of the exchange: its value or an error of ours; anything else fails the test."""
    began_s = time.monotonic()
    result: Any
    try:
        result = exchange.run(broker)
    except KafkaWireError as error:
        result = error
    message = str(result) if isinstance(result, KafkaWireError) else ""
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
    assert time.monotonic() - began_s < len(exchange.apis) * (1 + RETRIES) * TIMEOUT_S + GRACE_S
    return result


def _lie(about: Callable[[bytes, int], Sent], number: int) -> Callable[[bytes], Sent]:
    return lambda frame: about(frame, number)


def with_length(body: bytes, size: int | None = None) -> bytes:
    return (len(body) if size is None else size).to_bytes(4, "big", signed=True) + body


@each_step
def test_a_response_that_breaks_off_anywhere_is_an_error(exchange: Exchange, api: Api) -> None:
    size = len(honest_responses(exchange)[api])
    with liar(api) as (broker, set_lie):
        for cut in range(size):
            # On a machine that is busy enough a broker may seem old, and its responses are shorter then.
            set_lie(_lie(lambda frame, cut: Sent(frame[: min(cut, len(frame) - 1)], "close"), cut))
            result = outcome(exchange, broker)
            # A broker that closes instead of naming its versions may be older than the question.
            is_old = api is modern.API_VERSIONS and result == exchange.honest
            assert is_old or isinstance(result, KafkaWireError), cut


@each_step
def test_a_response_that_is_shorter_than_its_fields_is_an_error(exchange: Exchange, api: Api) -> None:
    size = len(honest_responses(exchange)[api])
    with liar(api) as (broker, set_lie):
        for cut in range(4, size):
            set_lie(_lie(lambda frame, cut: Sent(with_length(frame[4 : min(cut, len(frame) - 1)])), cut))
            assert isinstance(outcome(exchange, broker), KafkaWireError), cut


@each_step
def test_a_length_that_lies_is_refused_without_memory_for_it(exchange: Exchange, api: Api) -> None:
    with liar(api) as (broker, set_lie):
        tracemalloc.start()
        try:
            for size in LENGTHS:
                set_lie(_lie(lambda frame, size: Sent(with_length(frame[4:], size), "close"), size))
                tracemalloc.reset_peak()
                assert isinstance(outcome(exchange, broker), KafkaWireError), size
                assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX, size
        finally:
            tracemalloc.stop()


@each_step
def test_a_response_to_another_request_is_an_error(exchange: Exchange, api: Api) -> None:
    with liar(api) as (broker, set_lie):
        set_lie(lambda frame: Sent(frame[:4] + b"\x7f" + frame[5:]))
        assert "got the response to request" in str(outcome(exchange, broker))


@each_step
def test_a_broker_that_falls_silent_is_given_up_at_the_deadline(exchange: Exchange, api: Api) -> None:
    with liar(api) as (broker, set_lie):
        for part in (0, 3, -1):
            set_lie(_lie(lambda frame, part: Sent(frame[:part], "be silent"), part))
            for _ in range(CONNECTS_MAX):
                result = outcome(exchange, broker)
                if "cannot connect within" not in str(result):
                    break
            is_old = api is modern.API_VERSIONS and result == exchange.honest
            assert is_old or "no answer within" in str(result), part


@short_and_long("count", short=60, long=300)
@each_step
def test_a_changed_response_gives_a_result_or_an_error(count: int, exchange: Exchange, api: Api) -> None:
    draw = random.Random(f"{exchange} {api.name}")
    failed = 0
    with liar(api) as (broker, set_lie):
        # Nobody else is connected to, and no name is looked up.
        address = HOST.encode() + broker.port.to_bytes(4, "big")
        for _ in range(count):
            set_lie(lambda frame: Sent(mutated(frame, draw, keep=address)))
            failed += isinstance(outcome(exchange, broker), KafkaWireError)
    assert failed > count // 50


def mutated(frame: bytes, draw: random.Random, keep: bytes) -> bytes:
    """A frame with a few bytes of its body changed, taken out or doubled; its length is right."""
    while True:
        body = bytearray(frame[4:])
        for _ in range(draw.randint(1, 3)):
            pos = draw.randrange(len(body) + 1)
            match draw.randrange(3):
                case 0:
                    body[pos : pos + 1] = draw.randbytes(1)
                case 1:
                    del body[pos : pos + draw.randint(1, 8)]
                case _:
                    body[pos:pos] = body[pos : pos + draw.randint(1, 8)]
        if (keep in frame) == (keep in body):
            return with_length(bytes(body))
