"""Buffers that replies are received into, used again once nobody looks at them.

The first touch of fresh memory costs as much as receiving into it, and memory that was just read
is in the processor's cache.
"""

from __future__ import annotations

from typing import Final

#: Bytes in front of a large reply that are free for its reader.
ROOM_BYTES_MAX: Final = 1 << 16
#: Buffers that are kept: one to receive into while another one is read.
KEPT_COUNT_MAX: Final = 2


class Frames:
    """Gives out views of buffers, and each buffer again when no view of it is alive."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, size: int) -> tuple[memoryview, int]:
        """A frame for a reply of ``size`` bytes, and the position where the reply begins in it.

        What lies before it, as much as the reply and at most ``ROOM_BYTES_MAX``, is free for who
        reads the reply. The content is arbitrary.
        """
        room = min(size, ROOM_BYTES_MAX)
        frame_size = room + size
        for buffer in self._kept:
            if len(buffer) > frame_size and _is_free(buffer):
                return memoryview(buffer)[:frame_size], room
        buffer = bytearray(frame_size + 1)  # never empty, for the sake of _is_free
        self._kept = [*self._kept, buffer][-KEPT_COUNT_MAX:]
        return memoryview(buffer)[:frame_size], room


def _is_free(buffer: bytearray) -> bool:
    try:
        # Python refuses to change the size of a buffer while a view of it is alive.
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
