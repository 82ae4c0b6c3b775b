"""Answers of a 0.7.2 broker to each request. No socket: a request in, an ``Answer`` out.

Only FETCH and MULTIFETCH report an error by its code. After any other request that fails the broker closes
the connection without a response. PRODUCE is never answered: no response means that the messages were stored,
or dropped because one was above ``max.message.size``.

Source: recordings of a 0.7.2 broker, 0.7.2 server/KafkaRequestHandlers.scala.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..errors import BrokerError, KafkaWireError, log_of, quote
from ..protocol import v07
from ..protocol.api import Api
from ..protocol.dialect import Dialect
from ..protocol.primitives import Buffer
from ..protocol.v07 import ErrorCode
from .config import BrokerConfig
from .log import FileSlice, OversizeMessage, check_produced
from .log_directory import LogDirectory

LOG: Final = log_of(__name__)

#: ``length int32 | error int16``: the start of every response, and of every part of a MULTIFETCH's.
RESPONSE_HEADER: Final = struct.Struct(">ih")
ERROR_SIZE: Final = 2

Part = Buffer | FileSlice


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of a response frame to send one after the other, and whether to close then."""

    parts: tuple[Part, ...] = ()
    close: bool = False


SILENCE: Final = Answer()
CLOSE: Final = Answer(close=True)

#: Returns true if the client still waits for the answer.
IsAwaited = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """A request, and the function that carries it out and answers it. ``answer`` never raises."""

    api: Api
    request: Any
    answer: Callable[[IsAwaited], Answer]


class Speaker(Protocol):
    """A wire format that a broker speaks; all of them share one port."""

    @property
    def dialect(self) -> Dialect:
        """Requests of this format; no two formats of a broker have a request with the same id."""

    def read(self, body: memoryview) -> Call:
        """The call in a request's frame. Raises ``ProtocolError``."""


class Handlers:
    """Answers requests of 0.7 from the logs of one broker."""

    dialect = v07.DIALECT

    def __init__(
        self, config: BrokerConfig, logs: LogDirectory, *, draw: Callable[[int], int] = random.randrange
    ) -> None:
        self._config = config
        self._logs = logs
        self._draw = draw
        self._handlers: dict[type[Any], Callable[[Any], Answer]] = {
            v07.ProduceRequest: self._produce,
            v07.FetchRequest: self._fetch,
            v07.MultiFetchRequest: self._multifetch,
            v07.MultiProduceRequest: self._multiproduce,
            v07.OffsetsRequest: self._offsets,
        }

    def read(self, body: memoryview) -> Call:
        """The call in a request's frame. Raises ``ProtocolError``."""
        api, request = self.dialect.read_request(body)
        return Call(api, request, lambda _: self._answer(request))

    def _answer(self, request: object) -> Answer:
        try:
            return self._handlers[type(request)](request)
        except (KafkaWireError, OSError) as error:
            LOG.error("%s refused: %s", type(request).__name__, error)
            return CLOSE

    def _produce(self, request: v07.ProduceRequest) -> Answer:
        partition = request.partition
        if partition == v07.RANDOM_PARTITION:
            partition = self._draw(self._config.partition_count(request.topic))
        # A new topic is created before its first message set is checked.
        log = self._logs.get_or_create(request.topic, partition)
        try:
            size, count = check_produced(request.message_set, self._config.max_message_size)
        except OversizeMessage as error:
            LOG.warning("%s on %s:%d", error, quote(request.topic), partition)
            return SILENCE
        log.append(memoryview(request.message_set)[:size], count)
        return SILENCE

    def _multiproduce(self, request: v07.MultiProduceRequest) -> Answer:
        # The first set that fails raises; the sets before it stay stored.
        for produce in request.produces:
            self._produce(produce)
        return SILENCE

    def _fetch(self, request: v07.FetchRequest) -> Answer:
        return _frame_answer(*self._read(request))

    def _multifetch(self, request: v07.MultiFetchRequest) -> Answer:
        responses = [self._read(fetch) for fetch in request.fetches]
        length = ERROR_SIZE + sum(RESPONSE_HEADER.size + size for _, _, size in responses)
        parts: list[Part] = [RESPONSE_HEADER.pack(_wrap_as_java_int(length), ErrorCode.NONE)]
        for response in responses:
            answer = _frame_answer(*response)
            parts += answer.parts
            if answer.close:
                return Answer(tuple(parts), close=True)
        return Answer(tuple(parts))

    def _read(self, request: v07.FetchRequest) -> tuple[int, FileSlice | None, int]:
        """Error code, bytes, and the size that the frame announces for them."""
        try:
            log = self._logs.get(request.topic, request.partition)
            result = log.read(request.offset, request.max_bytes) if log else None
        except BrokerError as error:
            LOG.info("FETCH of %s:%d failed: %s", quote(request.topic), request.partition, error)
            return error.code, None, 0
        return ErrorCode.NONE, result, result.size if result else 0

    def _offsets(self, request: v07.OffsetsRequest) -> Answer:
        log = self._logs.get(request.topic, request.partition)
        if log is None:
            known = request.time in (v07.LATEST_TIME, v07.EARLIEST_TIME)
            offsets: tuple[int, ...] = (0,) if known else ()
        elif request.max_offsets < 0:
            return CLOSE
        else:
            offsets = log.offsets_before(request.time, request.max_offsets)
        response = v07.OffsetsResponse(ErrorCode.NONE, offsets)
        return Answer(tuple(v07.DIALECT.write_response(v07.OFFSETS, response)))


def _frame_answer(error_code: int, result: FileSlice | None, size: int) -> Answer:
    """A FETCH response. For a negative size the broker sends a header with it and gives up."""
    header = RESPONSE_HEADER.pack(ERROR_SIZE + size, error_code)
    if size < 0:
        return Answer((header,), close=True)
    return Answer((header, result) if result and size else (header,))


def _wrap_as_java_int(value: int) -> int:
    """``value`` as Java's 32-bit arithmetic has it: a MULTIFETCH may ask for more than 2 GiB."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
