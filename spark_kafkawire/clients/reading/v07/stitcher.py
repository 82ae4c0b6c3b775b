"""A stream of log bytes, cut anywhere, becomes columns of whole messages. Pure.

Messages inside one chunk are decoded where they lie. Only a message that a chunk's end cuts is
copied: in front of the next chunk where there is room for it, so that both are decoded at once;
else it is assembled from as many chunks as it takes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from ....errors import LimitError
from ....model import OffsetRange
from ....protocol.buffers import Buffers
from ....protocol.primitives import Buffer
from ....records.columns import Columns
from ....records.limits import DecodeLimits
from ....records.message_set.decoding import decode
from ....records.message_set.index import message_size
from ..task import MessageCrossesStop

_LENGTH_BYTES: Final = 4


class Stitcher:
    """Decodes the bytes of one range. ``offset`` is the log offset of the first byte not decoded."""

    def __init__(
        self, log_range: OffsetRange, message_bytes_max: int, limits: DecodeLimits, *, values: bool = True
    ) -> None:
        self.offset = log_range.start_offset
        self._stop_offset = log_range.stop_offset
        self._message_bytes_max = message_bytes_max
        self._limits = limits
        self._values = values
        self._tail = bytearray()
        self._buffers = Buffers()

    def feed(self, frame: memoryview, start: int = 0) -> Iterator[Columns]:
        """Columns of the messages that the chunk ``frame[start:]`` completes.

        What lies before ``start`` is overwritten. The frame may be used again when the iterator
        has ended. Raises ``CorruptDataError`` (its ``offset`` tells where), ``LimitError`` for a
        message above ``maxMessageBytes``.
        """
        chunk = frame[start:]
        if 0 < len(self._tail) <= start:
            chunk = frame[start - len(self._tail) :]
            chunk[: len(self._tail)] = self._tail
            self._tail.clear()
        elif self._tail:
            chunk = self._complete_tail(chunk)
            if len(self._tail) < self._tail_size():
                return
            tail, self._tail = self._tail, bytearray()
            yield from self._decode(tail)
        rest = yield from self._decode(chunk)
        self._tail += chunk[rest:]
        self._tail_size()

    def finish(self) -> None:
        """Say that the range has ended. Raises ``CorruptDataError`` where it ends in a message."""
        if self._tail:
            raise self._crosses_stop()

    def _decode(self, chunk: Buffer) -> Generator[Columns, None, int]:
        """Yield the columns of all whole messages; return how many bytes they took."""
        view, pos = memoryview(chunk), 0
        while pos < len(view):
            decoded = decode(
                view[pos:], self.offset, self._limits, values=self._values, buffers=self._buffers
            )
            pos += decoded.size
            self.offset += decoded.size
            if decoded.columns.count:
                yield decoded.columns
            if decoded.cut:
                break
        return pos

    def _complete_tail(self, chunk: memoryview) -> memoryview:
        """Move the bytes that complete the cut message from ``chunk`` to the tail."""
        for _ in range(2):  # the length first, then the message it announces
            taken = max(0, self._tail_size() - len(self._tail))
            self._tail += chunk[:taken]
            chunk = chunk[taken:]
        return chunk

    def _tail_size(self) -> int:
        """Bytes that the cut message has in all, as far as it is known yet."""
        size = message_size(self._tail)
        if size is None:
            return _LENGTH_BYTES
        if size - _LENGTH_BYTES > self._message_bytes_max:
            raise LimitError(
                f"the message at offset {self.offset} announces {size - _LENGTH_BYTES} bytes, "
                f"more than maxMessageBytes={self._message_bytes_max}"
            )
        if self.offset + size > self._stop_offset:
            raise self._crosses_stop()
        return size

    def _crosses_stop(self) -> MessageCrossesStop:
        return MessageCrossesStop(
            f"the message at offset {self.offset} goes on after {self._stop_offset}, where the range ends",
            self.offset,
        )
