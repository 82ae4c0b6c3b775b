"""Windows of bytes of a range of a 0.7 log: the next one to fetch, and the order of the responses. Pure.

A 0.7 broker serves raw bytes from any position, so a range is cut into windows, and several are fetched at
once. A response may be short, because a broker stops at the end of a segment file. Then the rest is fetched,
and responses to later windows are held until it arrives. No byte is fetched twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """Bytes ``[offset, offset + size)`` of the log."""

    offset: int
    size: int


class Windows(Generic[T]):
    """The windows of one range. ``T`` is the type of a response.

    ``next_offset`` is the first byte that ``take`` has not returned.
    """

    def __init__(self, start_offset: int, stop_offset: int, window_bytes: int, in_flight_max: int) -> None:
        self.next_offset = start_offset
        self._stop_offset = stop_offset
        self._window_bytes = window_bytes
        self._in_flight_max = in_flight_max
        self._frontier = start_offset
        self._gaps: list[Window] = []
        self._asked: dict[int, Window] = {}
        self._held: dict[int, tuple[T, int]] = {}

    @property
    def done(self) -> bool:
        """True after all bytes of the range were taken."""
        return self.next_offset >= self._stop_offset

    def ask(self) -> Window | None:
        """The next window to fetch; None if enough are in flight or held."""
        if self._gaps:
            window = self._gaps.pop(0)
        elif self._frontier < self._stop_offset and len(self._asked) + len(self._held) < self._in_flight_max:
            window = Window(self._frontier, min(self._window_bytes, self._stop_offset - self._frontier))
            self._frontier += window.size
        else:
            return None
        self._asked[window.offset] = window
        return window

    def answer(self, offset: int, answer: T, size: int) -> None:
        """Hold the response to the window at ``offset``, which has ``size`` bytes."""
        window = self._asked.pop(offset)
        self._held[offset] = (answer, size)
        if 0 < size < window.size:
            self._gaps.append(Window(offset + size, window.size - size))
            self._gaps.sort(key=lambda gap: gap.offset)

    def take(self) -> T | None:
        """The response with the next byte of the stream; None until it arrives."""
        if self.next_offset not in self._held:
            return None
        answer, size = self._held.pop(self.next_offset)
        self.next_offset += size
        return answer

    def restart(self, offset: int | None = None) -> None:
        """Fetch all missing windows again, after the connection was lost.

        With ``offset``, continue there and discard all held responses: the bytes before it are gone.
        """
        if offset is not None:
            self.next_offset = self._frontier = min(offset, self._stop_offset)
            self._gaps, self._held = [], {}
        else:
            self._gaps = sorted([*self._gaps, *self._asked.values()], key=lambda gap: gap.offset)
        self._asked = {}
