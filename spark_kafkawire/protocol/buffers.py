"""Reuse of receive buffers, for connections of all Kafka versions.

A buffer is used again when no view of it is alive.
Touching a megabyte of fresh memory costs as much as its way through a socket, and memory that was just
read is in the processor's cache.
"""

from __future__ import annotations

from typing import Final

#: Buffers that are kept: one to fill while another one is read.
KEPT_COUNT_MAX: Final = 2


class Buffers:
    """A pool that gives out views of buffers, and reuses a buffer when no view of it is alive."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """``size`` bytes to write to. Their content is arbitrary."""
        for buffer in self._kept:
            if len(buffer) > size and _is_free(buffer):
                return memoryview(buffer)[:size]
        # An eighth more, because the next request seldom has the same size; untouched memory costs
        # nothing. One more byte is for _is_free.
        buffer = bytearray(size + size // 8 + 1)
        self._kept = [*self._kept, buffer][-KEPT_COUNT_MAX:]
        return memoryview(buffer)[:size]


def _is_free(buffer: bytearray) -> bool:
    try:
        # Python refuses to change the size of a buffer while a view of it is alive.
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True


def join_tail(tail: bytes | bytearray, frame: memoryview, start: int) -> memoryview:
    """The bytes of ``frame[start:]`` after the tail of those before them; in place if the tail fits there."""
    if len(tail) > start:
        return memoryview(bytes(tail) + frame[start:])
    frame[start - len(tail) : start] = tail
    return frame[start - len(tail) :]
