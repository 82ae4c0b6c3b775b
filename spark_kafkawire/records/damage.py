"""Damage in the bytes of a log, of any format: its extent, and the proven place where the log continues.

    whole | whole | damaged | whole | ...
                  ^ pos     ^ stop

A log is a row of entries: batches, or outermost messages. Each has a length at its begin, and a checksum that
does not cover the length. So the place after a damaged entry needs a proof. In this order:

1. The lengths, from the damaged entry on, lead to a sound entry or to a known boundary: the place after its
   length.
2. Otherwise the next known boundary (``boundaries``, the end of a segment), or the next place where a chain
   of entries begins of which ``CHAIN_MIN`` are sound.
3. Within these bytes, an earlier place is better: the one up to which the checksum of the damaged entry is
   right, so that only its length is wrong; or a sound entry whose offsets are missing.

A compressed message may hold plain ones as they are, with right checksums. So after a damaged compressed
message a plain one is a proof only if its offset cannot be one inside, and in 0.7 never.

This code runs after a check has failed, and may be slow. Its time is linear nevertheless: a budget bounds the
bytes that are checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .arrays import Uint8s

#: Sound entries that prove the begin of a chain.
CHAIN_MIN: Final = 3
#: Most entries of a chain that are examined, with the damaged ones between the sound ones.
_CHAIN_MAX: Final = 16
#: Bytes that may be checked in any buffer, and for each of its bytes, ...
_BUDGET_MIN: Final = 16 << 20
_BUDGET: Final = 64
#: ... where a check counts as that many bytes at least.
_CHECK_BYTES_MIN: Final = 256
#: ... and a place where an entry may end as that many.
_PLACE_BYTES: Final = 32
#: Positions that are searched at once.
SEARCH_BYTES: Final = 1 << 16

#: Reasons of entries whose checksum is right and whose content cannot be decoded: by offset and checksum, in
#: 0.7 by offset and size.
Undecodable = Mapping[tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class Whole:
    """Bytes ``[pos, stop)`` of a buffer: sound entries, one after the other, from ``start_offset`` on."""

    pos: int
    stop: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes ``[pos, stop)`` of a buffer that cannot become rows, and the offsets that their rows had:
    ``[start_offset, stop_offset)``.

    The bounds are those of sound neighbours, so offsets that compaction removed may be among them.
    """

    pos: int
    stop: int
    start_offset: int
    stop_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Walk:
    """The parts of a buffer from its begin on.

    The first ``size`` bytes are ``parts``, and the log continues there at ``next_offset``. What follows is
    cut by the buffer's end, or it is ``rest``: damage without a proven place where the log continues. Its
    ``stop_offset`` is that of its own header, if that continues the log, and otherwise its ``start_offset``.
    """

    parts: tuple[Whole | Damage, ...]
    size: int
    next_offset: int
    rest: Damage | None = None

    @property
    def damages(self) -> tuple[Damage, ...]:
        """The damage among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Damage))

    @property
    def first(self) -> Damage | None:
        """The first damage of the buffer."""
        return next(iter(self.damages), self.rest)


class Entries(ABC):
    """The bytes of a log from ``start_offset`` on, and the entries that may be in them.

    ``boundaries`` are positions where entries are known to begin, ascending, such as those of index entries.
    With ``is_end``, the end of the buffer is one, too.
    """

    def __init__(
        self,
        buf: Uint8s,
        start_offset: int,
        stop_offset: int,
        size_max: int,
        is_end: bool,
        boundaries: Iterable[int],
        undecodable: Undecodable | None,
    ) -> None:
        self.size, self._view, self._is_end = len(buf), buf.data, is_end
        self._start_offset, self._stop_offset, self._size_max = start_offset, stop_offset, size_max
        self._undecodable = undecodable or {}
        self._builder = WalkBuilder(start_offset)
        self._boundaries = sorted({item for item in boundaries if 0 < item < self.size})
        self._known = frozenset(self._boundaries)
        self._budget = _BUDGET_MIN + _BUDGET * self.size
        self._sound: dict[int, int] = {}
        self._leads: dict[int, bool] = {}

    @abstractmethod
    def claimed_end(self, pos: int) -> int:
        """The end of the entry at a position by its length, maybe after the buffer's; -1 if it cannot be."""

    @abstractmethod
    def is_right(self, pos: int, end: int) -> bool:
        """True if the checksum of these bytes, an entry, is right."""

    @abstractmethod
    def likely(self, start: int, stop: int) -> Iterator[int]:
        """Positions in ``[start, stop)`` whose bytes look like the header of an entry that ends in the
        buffer."""

    @abstractmethod
    def completion(self, pos: int) -> Callable[[int], bool]:
        """A function of ascending positions: true where the entry at ``pos``, by its checksum, ends."""

    @abstractmethod
    def may_hold(self, damaged: int, pos: int) -> bool:
        """True if the entry at ``pos`` may be the content of the damaged one, a compressed message."""

    def has_missing_offsets(self, damaged: int, pos: int, stop: int) -> bool:  # noqa: ARG002
        """True if the entry at ``pos`` is sound, and its offsets are missing between the damaged one and
        ``stop``. False in formats without offsets."""
        return False

    def ends_log(self, pos: int) -> bool:  # noqa: ARG002
        """True if the entry at ``pos``, by its offsets, is the last one of the log."""
        return False

    def sound_end(self, pos: int, *, is_free: bool = False) -> int:
        """The end of the entry at a position, if it is in the buffer and its checksum is right; -1 otherwise,
        or when the budget is spent, unless the check ``is_free``: each entry of a log is checked once."""
        if (known := self._sound.get(pos)) is not None:
            return known
        end = self.claimed_end(pos)
        if not pos < end <= self.size:
            return -1
        if not is_free:
            if self._budget <= 0:
                return -1
            self._budget -= max(end - pos, _CHECK_BYTES_MIN)
        result = self._sound[pos] = end if self.is_right(pos, end) else -1
        return result

    def resume(self, pos: int) -> int:
        """The proven place where the log continues after the damaged entry at ``pos``; -1 without a proof."""
        claimed = self.claimed_end(pos)
        stop = claimed if self._leads_on(pos, claimed) else self._next_proven(pos)
        return stop if stop < 0 else self._refine(pos, stop)

    def is_completed(self, pos: int) -> bool:
        """True if the checksum of the entry at ``pos`` is right up to some place, so only its length is
        wrong."""
        self._budget -= self.size - pos
        ends = self.completion(pos)
        for location in self.likely(pos + 1, self.size):
            self._budget -= _PLACE_BYTES
            if self._budget <= 0 or ends(location):
                return self._budget > 0
        return False

    def _leads_on(self, before: int, pos: int) -> bool:
        """True if the lengths of entries lead from ``pos`` to a sound one or to a known boundary."""
        passed: list[int] = []
        result = self._leads.get(pos)
        while result is None:
            if not 0 < pos <= self.size:
                result = False
            elif self._is_boundary(before, pos) or self.sound_end(pos) > 0:
                result = True
            else:
                passed.append(pos)
                before, pos = pos, self.claimed_end(pos)
                result = self._leads.get(pos)
        if not result:
            # The length of one of them may be what is wrong, so that the next ones are none.
            count = next((i + 1 for i, item in enumerate(passed) if self.is_completed(item)), 0)
            self._leads.update(dict.fromkeys(passed[count:], False))
            passed, result = passed[:count], count > 0
        self._leads.update(dict.fromkeys(passed, result))
        return result

    def _is_boundary(self, before: int, pos: int) -> bool:
        if pos == self.size:
            return self._is_end or self.ends_log(before)
        return pos in self._known

    def _next_proven(self, damaged: int) -> int:
        """The next known boundary, or the next place where a chain of sound entries begins."""
        boundary = next((item for item in self._boundaries if item > damaged), self.size)
        for pos in self.likely(damaged + 1, boundary):
            if not self.may_hold(damaged, pos) and self._begins_chain(pos):
                return pos
        return boundary if boundary < self.size or self._is_end else -1

    def _begins_chain(self, pos: int) -> bool:
        count = 0
        for _ in range(_CHAIN_MAX):
            end = self.sound_end(pos)
            count += end > 0
            if not count or count == CHAIN_MIN:
                break
            before, pos = pos, end if end > 0 else self.claimed_end(pos)
            if not 0 < pos < self.size or pos in self._known:
                return pos > 0 and pos <= self.size and self._is_boundary(before, pos)
        return count == CHAIN_MIN

    def _refine(self, damaged: int, stop: int) -> int:
        """The first place before ``stop`` where the log continues."""
        is_completed = self.completion(damaged)
        for pos in self.likely(damaged + 1, stop):
            if is_completed(pos) or (
                self.has_missing_offsets(damaged, pos, stop) and not self.may_hold(damaged, pos)
            ):
                return pos
        return stop


class WalkBuilder:
    """Parts in the making. Damage ends at the offset at which the next sound entry begins."""

    def __init__(self, start_offset: int) -> None:
        self.next_offset = start_offset
        self._parts: list[Whole | Damage] = []
        self._open: Damage | None = None

    def add_whole(self, pos: int, stop: int, first_offset: int, next_offset: int) -> None:
        self.close(first_offset)
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Whole) and last.stop == pos:
            self._parts[-1] = Whole(last.pos, stop, last.start_offset)
        else:
            self._parts.append(Whole(pos, stop, first_offset))
        self.next_offset = next_offset

    def add_damage(self, pos: int, stop: int, reason: str, claimed_next: int = -1) -> None:
        """Add damaged bytes; those that follow damaged ones are one damage with them. ``claimed_next`` is the
        offset after them by their own header, -1 if that is nonsense."""
        if self._open is not None:
            pos, reason = self._open.pos, self._open.reason
        self._open = Damage(pos, stop, self.next_offset, max(claimed_next, self.next_offset), reason)

    def close(self, stop_offset: int) -> None:
        """End the open damage at an offset that is proven."""
        if (damage := self._open) is not None:
            stop_offset = max(stop_offset, damage.start_offset)
            self._parts.append(
                Damage(damage.pos, damage.stop, damage.start_offset, stop_offset, damage.reason)
            )
            self.next_offset, self._open = stop_offset, None

    def walk(self, size: int) -> Walk:
        """The parts; damage that is still open is the rest."""
        if (rest := self._open) is not None:
            return Walk(tuple(self._parts), rest.pos, self.next_offset, rest)
        return Walk(tuple(self._parts), size, self.next_offset)
