"""Reads back what a task has written and compares it, for ``acks=verify``.

A broker appends each message set as it came, so it lies in the log in one piece; sets of one
connection lie in the order they were sent, with other producers' messages between them. Of each
set only its size, its first message's header and a digest are kept.

    matcher = SetMatcher(sent, offset)      # pure: fed with log bytes, cut anywhere
    read_back(client, log, sent, ...)       # fetches, waits for flushes, raises DeliveryError
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ....errors import CorruptDataError, DeliveryError
from ....model import TopicPartition
from ....net.client import Client
from ....net.transport import Deadline
from ....protocol.primitives import Buffer
from ....protocol.v07 import FetchRequest
from ....protocol.v07.error_codes import broker_error
from ....records.message_set.encoding import EncodedSet
from ....records.message_set.index import message_size

#: Size of the header of a message as we write it (magic 1): its CRC makes it nearly unique.
HEADER_BYTES: Final = 10
#: Bytes of one FETCH; a larger set takes several.
FETCH_BYTES: Final = 1 << 20
#: Wait between two looks at a log whose last messages are not visible yet, seconds.
POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class SentSet:
    """A fingerprint of one message set: ``size`` bytes with ``message_count`` messages."""

    size: int
    message_count: int
    header: bytes
    digest: bytes

    @classmethod
    def of(cls, encoded: EncodedSet) -> SentSet:
        """The fingerprint of a set that is about to be sent."""
        header = bytes(memoryview(encoded.data)[:HEADER_BYTES])
        return cls(len(encoded.data), encoded.count, header, _digest(encoded.data))


class SetMatcher:
    """Finds sent sets in a log that is fed from ``offset`` on, which is a message boundary.

    ``offset`` is how far the log was searched; what is kept of it is less than the largest set
    and one chunk, for foreign messages are stepped over unseen. ``found`` spans the sets found so
    far, None before the first. ``missing`` are those that cannot come any more: a later one was
    found.
    """

    def __init__(self, sent: Sequence[SentSet], offset: int) -> None:
        self.offset = offset
        self.found: tuple[int, int] | None = None
        self.missing: list[SentSet] = []
        self._sent = sent
        self._next = 0
        self._places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for index, sent_set in enumerate(sent):
            self._places[sent_set.header].append(index)
        self._buffer = bytearray()

    @property
    def done(self) -> bool:
        """Whether every set was found or is missing."""
        return self._next == len(self._sent)

    @property
    def next_offset(self) -> int:
        """Where the bytes of the next ``feed`` begin: after the last ones, or after a foreign message
        that goes on behind them."""
        return self.offset + len(self._buffer)

    def feed(self, chunk: Buffer) -> None:
        """Search the log's bytes from ``next_offset`` on.

        Raises ``CorruptDataError`` where no message begins.
        """
        self._buffer += chunk
        self._search(ended=False)

    def finish(self) -> None:
        """The log ends here: what was not found so far is missing."""
        self._search(ended=True)
        self.missing += self._sent[self._next :]
        self._next = len(self._sent)

    def _search(self, *, ended: bool) -> None:
        pos = 0
        with memoryview(self._buffer) as log:
            while not self.done and (size := self._step(log[pos:], pos, ended)) is not None:
                pos += size
        del self._buffer[:pos]
        self.offset += pos

    def _step(self, log: memoryview, pos: int, ended: bool) -> int | None:
        """Size of the set or of the foreign message at the start of ``log``; None for more bytes."""
        candidates = self._places.get(bytes(log[:HEADER_BYTES]), deque())
        while candidates and candidates[0] < self._next:
            candidates.popleft()
        for index in candidates:
            sent_set = self._sent[index]
            if len(log) < sent_set.size and not ended:
                return None
            if _digest(log[: sent_set.size]) == sent_set.digest:
                self._take(index, self.offset + pos)
                return sent_set.size
        return message_size(log) if len(log) >= HEADER_BYTES else None

    def _take(self, index: int, start_offset: int) -> None:
        self.missing += self._sent[self._next : index]
        self._next = index + 1
        first_offset = self.found[0] if self.found else start_offset
        self.found = first_offset, start_offset + self._sent[index].size


def read_back(
    client: Client, log: TopicPartition, sent: Sequence[SentSet], visible: tuple[int, int], timeout_s: float
) -> tuple[int, int]:
    """The span of the log that holds all sets that were sent.

    ``visible`` is the log's end before the first produce and after the last one, as OFFSETS told
    them; unflushed messages come after it, and ``timeout_s`` is how long they are waited for
    after the last set that was found.

    Raises ``DeliveryError`` (fatal) for sets that are not in the log, ``TransportError``.
    """
    start_offset, stop_offset = visible
    matcher = SetMatcher(sent, start_offset)
    deadline = Deadline.after(timeout_s)
    while not matcher.done:
        found = matcher.found
        chunk = _fetch(client, log, matcher.next_offset)
        try:
            matcher.feed(chunk)
        except CorruptDataError as error:
            raise DeliveryError(
                f"{log} at offset {matcher.offset}: written messages cannot be looked for: {error}"
            ) from error
        if matcher.found != found or (len(chunk) and matcher.offset < stop_offset):
            deadline = Deadline.after(timeout_s)
        elif time.monotonic() > deadline.at_s:
            matcher.finish()
        elif not len(chunk):
            time.sleep(POLL_INTERVAL_S)
    if matcher.missing:
        raise _missing(log, matcher, sent, start_offset, timeout_s)
    assert matcher.found is not None
    return matcher.found


def _fetch(client: Client, log: TopicPartition, offset: int) -> Buffer:
    reply = client.request(FetchRequest(log.topic, log.partition, offset, FETCH_BYTES))
    if reply.error_code:
        place = f"{log} at offset {offset}: written messages cannot be read back"
        raise DeliveryError(str(broker_error(reply.error_code, place)))
    chunk: Buffer = reply.message_set
    return chunk


def _missing(
    log: TopicPartition, matcher: SetMatcher, sent: Sequence[SentSet], start_offset: int, timeout_s: float
) -> DeliveryError:
    lost, all_messages = (sum(each.message_count for each in sets) for sets in (matcher.missing, sent))
    return DeliveryError(
        f"{log}: {lost} of {all_messages} written messages ({len(matcher.missing)} of {len(sent)} sets) are "
        f"not in the log from offset {start_offset} to {matcher.next_offset}, {timeout_s:g} s "
        "(requestTimeout) after the last that are: the broker dropped them in silence (is its own "
        "max.message.size smaller than the option?) or has not flushed them (log.flush.interval)"
    )


def _digest(data: Buffer) -> bytes:
    # Twice as fast as blake2b where the CPU has instructions for it.
    return hashlib.sha256(data).digest()
