"""Answers of the embedded broker to the New Wire Format Proposal of 2012: acks with offsets, and long polls.

No message is dropped silently: a set that 0.7 would drop, or cut before its last message, is refused, and for
requests without acknowledgement the connection is closed. A log that was never written is ``[0, 0)``.

Memory: a request holds ``SET_COUNT_MAX`` partitions at most, an answer ``FETCH_BYTES_MAX`` bytes of messages.
They are read from the files at once, because a file per partition could take thousands of open files.

Source: see ``protocol.proposal``, which also lists the decisions that its document leaves open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..errors import BrokerError, CorruptDataError, LimitError, log_of, quote
from ..protocol import proposal
from ..protocol.proposal import (
    NO_ERROR_OF_SET,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ProduceRequest,
    ProduceResponse,
    TopicData,
    is_appended,
)
from ..protocol.v07 import ErrorCode as CodeOf07
from .config import BrokerConfig
from .handlers import CLOSE, SILENCE, Answer, Call, IsAwaited
from .log import Log, OversizeMessage, check_produced
from .log_directory import LogDirectory

LOG: Final = log_of(__name__)

#: Longest wait of a poll, even if it asks for more, and the time between two checks of its connection,
#: seconds.
WAIT_MAX_S: Final = 60.0
LOOK_S: Final = 1.0
#: Errors that have a code of their own in the proposal, and none in 0.7.
_CODES: Final = {CodeOf07.UNKNOWN: ErrorCode.INVALID_TOPIC}


@dataclass(frozen=True, slots=True)
class _Place:
    """A partition to fetch, and how many bytes it has from its offset on; ``log`` is None before any."""

    partition: int
    offset: int
    log: Log | None
    size: int


class _PartitionFault(Exception):
    """A partition cannot be fetched; ``code`` is the reason."""

    def __init__(self, topic: str, partition: int, code: int) -> None:
        super().__init__(f"partition {partition} of {quote(topic)}: error {code}")
        self.topic, self.partition, self.code = topic, partition, code


class ProposalHandlers:
    """Answers requests of the proposal from the logs of one broker."""

    dialect = proposal.DIALECT

    def __init__(
        self, config: BrokerConfig, logs: LogDirectory, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._logs = logs
        self._clock_s = clock_s
        self._handlers: dict[type[Any], Callable[[Any, IsAwaited], Any]] = {
            ProduceRequest: self._produce,
            FetchRequest: self._fetch,
        }

    def read(self, body: memoryview) -> Call:
        """The call in a request's frame. Raises ``ProtocolError``."""
        api, header, pos = self.dialect.read_request_header(body)
        version = header.api_version
        request, _ = api.request_codec(version).read(body, pos)

        def answer(is_awaited: IsAwaited) -> Answer:
            response = self._handlers[type(request)](request, is_awaited)
            if isinstance(response, Answer):
                return response
            if response.error_code:
                LOG.info("%s of %s: error %d", api.name, quote(header.client_id), response.error_code)
            return Answer(tuple(self.dialect.write_response(api, response, version, header.correlation_id)))

        return Call(api, request, answer)

    def _produce(self, request: ProduceRequest, _: IsAwaited) -> ProduceResponse | Answer:
        if request.required_acks not in (proposal.ACKS_NONE, proposal.ACKS_BROKER):
            code, count = ErrorCode.INVALID_REQUIRED_ACKS, request.set_count
            return ProduceResponse(code, (code,) * count, (proposal.NO_OFFSET,) * count)
        acknowledged = request.required_acks != proposal.ACKS_NONE
        outcomes = [
            self._append(topic.topic, part, flush=acknowledged)
            for topic in request.data
            for part in topic.partition_data
        ]
        if acknowledged:
            return ProduceResponse(
                ErrorCode.NONE, tuple(code for code, _ in outcomes), tuple(offset for _, offset in outcomes)
            )
        return SILENCE if all(is_appended(code) for code, _ in outcomes) else CLOSE

    def _append(self, topic: str, part: PartitionData, *, flush: bool) -> tuple[int, int]:
        try:
            self._logs.get(topic, part.partition)  # before a folder is made
            size, count = check_produced(part.messages, self._config.max_message_size)
            if size != len(part.messages):
                raise CorruptDataError(f"the message set ends inside a message, at {size}")
            log = self._logs.get_or_create(topic, part.partition)
            return NO_ERROR_OF_SET, log.append(part.messages, count, flush=flush)
        except (OversizeMessage, CorruptDataError, LimitError, BrokerError, OSError) as error:
            LOG.warning("messages for %s:%d refused: %s", quote(topic), part.partition, error)
            return _code_of(error), proposal.NO_OFFSET

    def _fetch(self, request: FetchRequest, is_awaited: IsAwaited) -> FetchResponse | Answer:
        if request.replica_id != proposal.NO_REPLICA:
            return FetchResponse(ErrorCode.REPLICA_NOT_AVAILABLE, ())
        if any(len(topic.partitions) != len(topic.offsets) for topic in request.topic_offsets):
            LOG.warning("Fetch refused: its numbers of offsets and partitions differ")
            return CLOSE
        deadline_s = self._clock_s() + min(max(request.max_wait_ms, 0) / 1000, WAIT_MAX_S)
        while True:
            try:
                data = _group_by_topic(request, _read(self._places(request, deadline_s, is_awaited)))
                return FetchResponse(ErrorCode.NONE, data)
            except (FileNotFoundError, BrokerError):
                continue  # retention deleted a segment since it was looked up: the log begins later now
            except _PartitionFault as fault:
                empty = TopicData(fault.topic, (PartitionData(fault.partition, b""),))
                return FetchResponse(fault.code, (empty,))
            except OSError as error:
                LOG.error("Fetch failed: %s", error)
                return FetchResponse(ErrorCode.STORAGE, ())

    def _places(self, request: FetchRequest, deadline_s: float, is_awaited: IsAwaited) -> list[_Place]:
        """State of each partition, once there are enough bytes or the time is over. Raises
        ``_PartitionFault``."""
        enough = min(request.min_bytes, proposal.FETCH_BYTES_MAX)
        while True:
            count = self._logs.arrivals.count
            places = [self._place(*item) for item in _list_asked(request)]
            left_s = deadline_s - self._clock_s()
            if sum(location.size for location in places) >= enough or left_s <= 0 or not is_awaited():
                return places
            self._logs.arrivals.wait(count, min(left_s, LOOK_S))

    def _place(self, topic: str, partition: int, offset: int) -> _Place:
        try:
            log = self._logs.get(topic, partition)
            if log is None:
                start_offset = stop_offset = 0
            else:
                start_offset, stop_offset = log.segments[0].start_offset, log.visible_stop_offset
            if not start_offset <= offset <= stop_offset:
                raise BrokerError(
                    f"offset {offset} is out of range; read from an offset of the log",
                    CodeOf07.OFFSET_OUT_OF_RANGE,
                )
        except BrokerError as error:
            raise _PartitionFault(topic, partition, _code_of(error)) from error
        return _Place(partition, offset, log, stop_offset - offset)


def _list_asked(request: FetchRequest) -> Iterator[tuple[str, int, int]]:
    for topic in request.topic_offsets:
        for partition, offset in zip(topic.partitions, topic.offsets, strict=True):
            yield topic.topic, partition, offset


def _read(places: list[_Place]) -> Iterator[PartitionData]:
    """The bytes of partitions, which share the limit of one answer: the partitions after one get the rest."""
    left = proposal.FETCH_BYTES_MAX
    waiting = sum(location.size > 0 for location in places)
    for location in places:
        data = b""
        if location.log is not None and location.size:
            result = location.log.read(location.offset, left // waiting)
            data = result.content() if result else b""
            left, waiting = left - len(data), waiting - 1
        yield PartitionData(location.partition, data)


def _group_by_topic(request: FetchRequest, parts: Iterator[PartitionData]) -> tuple[TopicData, ...]:
    """Group the data by topic, in the order of the request."""
    return tuple(
        TopicData(topic.topic, tuple(next(parts) for _ in topic.partitions))
        for topic in request.topic_offsets
    )


def _code_of(error: Exception) -> int:
    match error:
        case OversizeMessage():
            return ErrorCode.MESSAGE_TOO_LARGE
        case BrokerError():
            return _CODES.get(CodeOf07(error.code), ErrorCode(error.code))
        case OSError():
            return ErrorCode.STORAGE
        case _:
            return ErrorCode.INVALID_MESSAGE
