"""Verification of a write to Kafka 0.7 (``acks=verify``): reads back the rows of a task and compares them.

A broker appends each message set unchanged, so the set is in the log in one piece. Sets of one connection are
in the order in which they were sent, with messages of other producers between them. Only the size of each
set, the header of its first message and a digest are kept.

    matcher = SetMatcher(sent, offset)      # no I/O: it is fed with log bytes, split anywhere
    read_back(client, partition, sent, ...)       # fetches, waits for flushes, raises DeliveryError
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import CorruptDataError, DeliveryError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.protocol.v07 import FetchRequest
from spark_kafkawire.protocol.v07.error_codes import broker_error
from spark_kafkawire.records.message_set.encoding import EncodedSet
from spark_kafkawire.records.message_set.index import message_size

#: Size of the header of a message as this package writes it (magic 1): its CRC makes it nearly unique.
HEADER_BYTES: Final = 10
#: Bytes of one FETCH; a larger set takes several.
FETCH_BYTES: Final = 1 << 20
#: Interval between looks at a partition whose last messages are not visible yet, seconds.
POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class SentSet:
    """Fingerprint of one message set: ``size`` bytes with ``message_count`` messages."""

    size: int
    message_count: int
    header: bytes
    digest: bytes

    @classmethod
    def of(cls, encoded: EncodedSet) -> SentSet:
        """Compute the fingerprint of a set that is about to be sent."""
        header = bytes(memoryview(encoded.data)[:HEADER_BYTES])
        return cls(len(encoded.data), encoded.count, header, _digest(encoded.data))


class SetMatcher:
    """Finds sent sets in the bytes of a partition from ``offset`` on, which is a message boundary.

    ``offset`` is the position up to which the log was searched. The buffer holds less than the largest set
    and one chunk, because messages of other producers are skipped. ``found`` spans the sets found so far,
    None before the first. ``missing`` are sets that cannot follow any more, because a later one was found.
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
        """Return whether every set was found or is missing."""
        return self._next == len(self._sent)

    @property
    def next_offset(self) -> int:
        """Offset at which the next ``feed`` begins: after the last bytes, or after a message of another
        producer that extends beyond them."""
        return self.offset + len(self._buffer)

    def feed(self, chunk: Buffer) -> None:
        """Search the bytes of the log from ``next_offset`` on.

        Raises ``CorruptDataError`` if they do not begin with a message.
        """
        self._buffer += chunk
        self._search(ended=False)

    def finish(self) -> None:
        """End the log here: sets that were not found are missing."""
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
        """Size of the set or of the other producer's message at the start of ``partition``; None if more
        bytes are needed."""
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
    client: Client,
    partition: TopicPartition,
    sent: Sequence[SentSet],
    visible: tuple[int, int],
    timeout_s: float,
) -> tuple[int, int]:
    """Find all sets that were sent, and return the span of the log that holds them.

    ``visible`` is the end of the log before the first produce request and after the last one, as OFFSETS
    reported them. Messages that are not flushed come after it: ``timeout_s`` bounds the wait for them after
    the last set that was found.

    Raises ``DeliveryError`` (fatal) for sets that are not in the log, ``TransportError``.
    """
    start_offset, stop_offset = visible
    matcher = SetMatcher(sent, start_offset)
    deadline = Deadline.after(timeout_s)
    while not matcher.done:
        found = matcher.found
        chunk = _fetch(client, partition, matcher.next_offset)
        try:
            matcher.feed(chunk)
        except CorruptDataError as error:
            raise DeliveryError(
                f"{partition} at offset {matcher.offset}: written messages cannot be looked for, compare the "
                f"topic with the rows: {error}"
            ) from error
        if matcher.found != found or (len(chunk) and matcher.offset < stop_offset):
            deadline = Deadline.after(timeout_s)
        elif time.monotonic() > deadline.at_s:
            matcher.finish()
        elif not len(chunk):
            time.sleep(POLL_INTERVAL_S)
    if matcher.missing:
        raise _missing(partition, matcher, sent, start_offset, timeout_s)
    assert matcher.found is not None
    return matcher.found


def _fetch(client: Client, topic_partition: TopicPartition, offset: int) -> Buffer:
    response = client.request(
        FetchRequest(topic_partition.topic, topic_partition.partition, offset, FETCH_BYTES)
    )
    if response.error_code:
        place = f"{topic_partition} at offset {offset}: written messages cannot be read back"
        raise DeliveryError(str(broker_error(response.error_code, place)))
    chunk: Buffer = response.message_set
    return chunk


def _missing(
    partition: TopicPartition,
    matcher: SetMatcher,
    sent: Sequence[SentSet],
    start_offset: int,
    timeout_s: float,
) -> DeliveryError:
    lost, all_messages = (sum(each.message_count for each in sets) for sets in (matcher.missing, sent))
    return DeliveryError(
        f"{partition}: {lost} of {all_messages} written messages ({len(matcher.missing)} of {len(sent)} "
        f"sets) are not in the log from offset {start_offset} to {matcher.next_offset}, {timeout_s:g} s "
        "(requestTimeout) after the last that are: the broker dropped them silently (lower the option "
        "max.message.size to its own), or has not flushed them (log.flush.interval: raise requestTimeout); "
        "write them again"
    )


def _digest(data: Buffer) -> bytes:
    # Twice as fast as blake2b where the CPU has instructions for it.
    return hashlib.sha256(data).digest()
