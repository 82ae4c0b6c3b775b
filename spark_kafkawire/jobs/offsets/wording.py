"""The words for the values of an offsets report, on a terminal and in a page.

Names come from the cluster and may be hostile. Characters that are not printable are shown by their number,
so that a name can neither move the cursor nor change the direction of the text around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Final

from spark_kafkawire.errors import plural
from spark_kafkawire.model import Generation, OffsetUnit

from ..shell.progress import format_size

#: Text for an unknown value.
NONE_TEXT: Final = "-"
#: The last second that a date can show, milliseconds since 1970.
_DATE_MAX_MS: Final = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for a cluster's offsets; ``in_partitions`` goes after the sum of all sizes.

    ``has_segments`` and ``has_times`` are true if its brokers report these of a partition.
    """

    kafka: str
    size: str
    in_partitions: str
    has_segments: bool
    has_times: bool


WORDINGS: Final[Mapping[Generation, Wording]] = MappingProxyType(
    {
        Generation.V07: Wording(
            "Kafka 0.7", "bytes", "in the partitions", has_segments=True, has_times=False
        ),
        Generation.MODERN: Wording(
            "Kafka", "records", "records in the partitions", has_segments=False, has_times=True
        ),
    }
)


def printable(name: str) -> str:
    """A name from the cluster whose characters all show: ``\\x1b`` for an escape, and so on."""
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(_printable(character) for character in name)


def _printable(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    number = ord(character)
    if character == "\\":
        return "\\\\"
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def number_text(value: int | None) -> str:
    """``1,234,567``"""
    return NONE_TEXT if value is None else f"{value:,}"


def size_text(value: int | None, generation: Generation) -> str:
    """``1.2 MiB`` of a partition of bytes, ``1,234,567`` of one of records."""
    return NONE_TEXT if value is None else _SIZE_TEXTS[generation.offset_unit](value)


_SIZE_TEXTS: Final[Mapping[OffsetUnit, Callable[[int], str]]] = MappingProxyType(
    {OffsetUnit.BYTES: format_size, OffsetUnit.RECORDS: number_text}
)


def time_text(time_ms: int | None) -> str:
    """``2026-11-21 14:30:00Z``, in UTC. A record's time is its producer's word, and may be no date."""
    if time_ms is None:
        return NONE_TEXT
    if not 0 <= time_ms <= _DATE_MAX_MS:
        return f"{time_ms} ms"
    return datetime.fromtimestamp(time_ms // 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def count_text(count: int, one: str, many: str | None = None) -> str:
    """``1 topic``, ``2,000 topics``"""
    return f"{count:,} {plural(count, one, many)}"
