"""Decoder of the bytes of a 0.7 log, which come in chunks cut anywhere, into columns of whole messages. Pure.

Messages inside one chunk are decoded in place. Only a message that the end of a chunk cuts is copied. It is
copied in front of the next chunk if it fits there, so that both are decoded at once; otherwise it is
assembled from several chunks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from spark_kafkawire.errors import LimitError
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.protocol.buffers import Buffers
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import message_size

from ..task import MessageCrossesStop

_LENGTH_BYTES: Final = 4


class Stitcher:
    """Decoder of one range. ``offset`` is the log offset of the first byte that is not decoded."""

    def __init__(
        self, offset_range: OffsetRange, message_bytes_max: int, limits: DecodeLimits, *, values: bool = True
    ) -> None:
        self.offset = offset_range.start_offset
        self._stop_offset = offset_range.stop_offset
        self._message_bytes_max = message_bytes_max
        self._limits = limits
        self._values = values
        self._tail = bytearray()
        self._buffers = Buffers()

    def resume(self, tail: bytes) -> None:
        """Continue with the begin of a message, which the next chunk completes."""
        self._tail[:] = tail

    def feed(self, frame: memoryview, start: int = 0) -> Iterator[Columns]:
        """Columns of the messages that the chunk ``frame[start:]`` completes.

        Bytes before ``start`` are overwritten. The frame may be reused after the iterator has ended. Raises
        ``CorruptDataError`` with its ``offset``, and ``LimitError`` for a message above ``maxMessageBytes``.
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
        """Check the end of the range. Raises ``CorruptDataError`` if it is inside a message."""
        if self._tail:
            raise self._crosses_stop()

    def _decode(self, chunk: Buffer) -> Generator[Columns, None, int]:
        """Yield the columns of all whole messages. Returns their size, bytes."""
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
        """Size of the cut message, bytes, as far as it is known."""
        size = message_size(self._tail)
        if size is None:
            return _LENGTH_BYTES
        if size - _LENGTH_BYTES > self._message_bytes_max:
            raise LimitError(
                f"the message at offset {self.offset} has {size - _LENGTH_BYTES} bytes, "
                f"more than maxMessageBytes={self._message_bytes_max}; raise it"
            )
        if self.offset + size > self._stop_offset:
            raise self._crosses_stop()
        return size

    def _crosses_stop(self) -> MessageCrossesStop:
        return MessageCrossesStop(
            f"the message at offset {self.offset} extends beyond {self._stop_offset}, the end of the range; "
            "end it at an offset of a message",
            self.offset,
        )
