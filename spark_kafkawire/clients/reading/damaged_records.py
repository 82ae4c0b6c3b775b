"""Damage of a log in the read of one range: what ``badRecords`` makes of it.

    a check fails ─► walk over the bytes ─► fetch them again ─► the same damage ─► a row, or a count

The checksum of TCP is weak, so damage of one response may be the network's. Only damage that the next fetch,
on another connection, shows again is a bad record. With ``badRecords=fail`` the first failed check is the
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_kafkawire.errors import LOG, CorruptDataError, LimitError, counted
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.arrow import make_damaged_row
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Walk

from .task import Contradiction


class SuspectedDamage(Contradiction):
    """Damaged records that one fetch has shown: the next one shows whether they are in the log. Retriable.

    ``cause`` is the failed check, if the reason may be that a read of 0.7 begins or ends inside a message."""

    def __init__(
        self, message: str, offset: int = -1, cause: CorruptDataError | LimitError | None = None
    ) -> None:
        super().__init__(message, offset)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Damage and its bytes."""

    damage: Damage
    data: bytes

    @classmethod
    def of(cls, damage: Damage, buf: Buffer) -> DamagedBytes:
        """The damage of a buffer, with a copy of its bytes."""
        return cls(damage, bytes(memoryview(buf)[damage.pos : damage.stop]))


class DamagedRecords:
    """The damage of one range.

    ``is_expected`` is true after damage was seen: then the next response is examined before it is used.
    """

    def __init__(self, offset_range: OffsetRange, options: FetchOptions) -> None:
        self._range = offset_range
        self._bad_records = options.bad_records
        self._bytes_max = options.corrupt_bytes_max
        self._seen: frozenset[tuple[int, int]] = frozenset()
        self._count = self._byte_count = self._offset_count = 0
        self._first = ""
        self.is_expected = False

    @property
    def is_error(self) -> bool:
        """True if damage is an error."""
        return self._bad_records is BadRecords.FAIL

    def confirm(self, found: Iterable[DamagedBytes]) -> None:
        """Accept damage that the fetch before has shown, too. Raises ``SuspectedDamage`` for other damage."""
        kinds = {(len(item.data), hash(item.data)): item.damage for item in found}
        unknown = [damage for kind, damage in kinds.items() if kind not in self._seen]
        self._seen, self.is_expected = frozenset(kinds), True
        if unknown:
            first = unknown[0]
            raise SuspectedDamage(
                f"records at offset {first.start_offset} are damaged: {first.reason}; the fetch before did "
                "not show the same: check the network",
                first.start_offset,
            )

    def passed(self) -> None:
        """Forget what was seen: the last response had no damage."""
        self._seen, self.is_expected = frozenset(), False

    def columns(self, found: DamagedBytes) -> Iterator[Columns]:
        """The row of confirmed damage; none with ``badRecords=drop``, or if no offset of the range is
        missing."""
        damage = found.damage
        start = max(damage.start_offset, self._range.start_offset)
        stop = min(damage.stop_offset, self._range.stop_offset)
        if start >= stop:
            return
        size = damage.stop - damage.pos
        if not self._count:
            self._first = f"{counted(size, 'byte')} at offset {start}: {damage.reason}"
        self._count, self._byte_count = self._count + 1, self._byte_count + size
        self._offset_count += stop - start
        if self._bad_records is BadRecords.NULL:
            reason = f"{damage.reason}; {counted(size, 'byte')}"
            yield make_damaged_row(start, stop, found.data[: self._bytes_max], reason)

    def report(self) -> None:
        """Log the damage that was left out or became rows, and its first place."""
        if self._count:
            done = "left out" if self._bad_records is BadRecords.DROP else "made a row of nulls of each of"
            LOG.warning(
                "badRecords=%s %s %s of %s (%s, %s), the first: %s",
                self._bad_records.value,
                done,
                counted(self._count, "damaged place"),
                self._range.topic_partition,
                counted(self._offset_count, "offset"),
                counted(self._byte_count, "byte"),
                self._first,
            )


def unproven(damage: Damage) -> CorruptDataError:
    """The error for damage after which no place is proven to continue the log. Fatal."""
    return CorruptDataError(
        f"records at offset {damage.start_offset} are damaged: {damage.reason}; badRecords cannot pass "
        "over them, because no sound batch or message after them, and no end of the log, shows where "
        "they end",
        damage.start_offset,
        reason=damage.reason,
        pos=damage.pos,
    )


def advise_bad_records(
    error: CorruptDataError | LimitError, options: FetchOptions, cause: str
) -> CorruptDataError | LimitError:
    """The error with its cause and what to do: ``badRecords`` is advised only where it is not set."""
    if isinstance(error, LimitError):
        return error
    if options.bad_records is BadRecords.FAIL:
        return error.advise(
            f"{cause}: to read what is sound, set badRecords=null, which keeps the damaged bytes, or "
            "badRecords=drop"
        )
    if error.offset is None:
        return error
    return error.advise(
        f"{cause}: a batch read with endingOffsets up to {error.offset} has what is before it"
    )


def first_place(error: CorruptDataError, walk: Walk, place: str, start: int = 0) -> CorruptDataError:
    """The error for the first damage of a walk, which may be before that of ``error``.

    ``place`` describes the bytes in which the buffer of the positions begins at ``start``."""
    first = walk.first
    if first is None or error.pos is None or first.pos > error.pos:
        return (
            error if error.pos is None else error.advise(f"it begins at byte {start + error.pos} of {place}")
        )
    if first.pos < error.pos:
        error = CorruptDataError(
            f"batch at offset {first.start_offset} is damaged: {first.reason}; the records before it are "
            "whole",
            first.start_offset,
        )
    return error.advise(f"it begins at byte {start + first.pos} of {place}")
