"""Walks over the batches of a segment file by their headers, while a read is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from spark_kafkawire.directories.batches import whole_batches
from spark_kafkawire.directories.damaged import DamagedSegment
from spark_kafkawire.directories.files import Files
from spark_kafkawire.directories.windows import windows
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.damage import Walk, Whole
from spark_kafkawire.records.damaged_batches import index_of, walk_batches, without_last
from spark_kafkawire.records.log_index import BatchIndex

#: Size of a window, bytes: most walks are over the few kilobytes after the last entry of an index.
_WINDOW_BYTES: Final = 1 << 20
#: Largest batch, bytes: a damaged size must not take all memory.
_BATCH_BYTES_MAX: Final = 64 << 20


#: Damage in a row after which a known boundary is next, bytes.
_DAMAGE_BYTES_MAX: Final = 2 * _BATCH_BYTES_MAX


def batches(
    files: Files, path: str, pos: int, stop_pos: int, *, yields_before_damage: bool = True
) -> Iterator[BatchIndex]:
    """The whole batches of the bytes ``[pos, stop_pos)`` of a segment, in order. A cut one at the end is left
    out.

    Raises ``CorruptDataError`` with its offset after the batches before it, and as ``windows`` does. Without
    ``yields_before_damage`` those of the same window are not given: the offset of the last one may be what is
    wrong.
    """
    tail = b""
    for frame, start in windows(files, path, pos, stop_pos, window_bytes=_WINDOW_BYTES):
        index, damage = whole_batches(tail + bytes(frame[start:]))
        if index.count and (damage is None or yields_before_damage):
            yield index
        if damage is not None:
            raise damage
        tail = index.buf[index.size :].tobytes()
        if len(tail) > _BATCH_BYTES_MAX:
            raise CorruptDataError(
                f"a batch has more than {_BATCH_BYTES_MAX} bytes, so it is damaged; copy the file again",
                int.from_bytes(tail[:8], "big", signed=True),
            )


def sound_batches(segment: DamagedSegment, pos: int, floor: int) -> Iterator[BatchIndex]:
    """The sound batches from a position of a damaged segment on, where no offset is below ``floor``.

    Raises ``FileNotFoundError``, ``FileAccessError`` (fatal)."""
    for _, data, walk in _walks(segment, pos, floor):
        for part in walk.parts:
            if isinstance(part, Whole):
                yield replace(index_of(data, part), size=part.stop)


def first_damage(segment: DamagedSegment, pos: int, floor: int) -> int | None:
    """The position of the first damage from a position of a segment on; None without any."""
    for start, _, walk in _walks(segment, pos, floor):
        if walk.first is not None:
            return start + walk.first.pos
    return None


def _walks(segment: DamagedSegment, pos: int, floor: int) -> Iterator[tuple[int, bytes, Walk]]:
    """The walks over a segment, each with the position and the bytes where it begins."""

    def walk(data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        found = walk_batches(
            data,
            floor,
            segment.stop_offset,
            size_max=_BATCH_BYTES_MAX,
            is_end=is_end,
            boundaries=boundaries,
            is_start=True,
        )
        return found if is_end else without_last(data, found)

    while pos < segment.size:
        data, found = segment.walk_at(pos, walk, window_bytes=_WINDOW_BYTES, bytes_max=_DAMAGE_BYTES_MAX)
        yield pos, data, found
        pos, floor = pos + found.size, found.next_offset
