"""What declares a codec, and what all of them check.

Sizes are checked before memory is taken, and what costs time without becoming anything counts as bytes, too:
see ``PART_BYTES_MIN``. Damage raises ``CorruptDataError``, too large a result ``TooLarge``, a ``LimitError``;
both are fatal. Their places are the caller's to tell.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import cramjam

from ...errors import CorruptDataError, LimitError, OptionError
from ...protocol.primitives import Buffer

if TYPE_CHECKING:
    from ..arrays import Uint8s

#: What a block, member or frame of a payload counts as at least, in bytes of content: each takes about a
#: microsecond, also an empty one. Writers make blocks of 32 KiB and more.
PART_BYTES_MIN: Final = 64
#: Parts that a payload may have whatever the limit.
_PARTS_ALWAYS: Final = 4096
#: What cramjam says of a result that is larger than the room for it.
_NO_ROOM: Final = "failed to write whole buffer"


class Format(enum.Enum):
    """The formats that hold compressed messages: message sets of Kafka 0.7, and logs by their magic."""

    MESSAGE_SET = "0.7"
    MAGIC_0 = 0
    MAGIC_1 = 1
    MAGIC_2 = 2


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression as some formats have it.

    ``name`` is that in options and ``number`` that in attributes. ``since`` is the first release of Kafka
    that has it, ``produce_version`` the first version of Produce that may carry it. ``levels`` are the
    lowest and the highest one, None where there are none. ``decompress(payload, size_max)`` gives the
    parts of the result, ``encode(data, level)`` all.
    """

    name: str
    number: int
    formats: frozenset[Format]
    since: str
    decompress: Callable[[memoryview, int], list[Buffer]]
    encode: Callable[[Buffer, int | None], Buffer]
    levels: tuple[int, int] | None = None
    produce_version: int = 0

    def compress(self, data: Buffer, level: int | None = None) -> Buffer:
        """The payload of these bytes. Raises ``OptionError`` (fatal) for a level that there is not."""
        if level is not None:
            if self.levels is None:
                raise OptionError(
                    f"{self.name} has no compression levels: remove the option compressionLevel"
                )
            low, high = self.levels
            if not low <= level <= high:
                raise OptionError(f"{self.name} has the compression levels {low} to {high}, not {level}")
        return self.encode(data, level)


class TooLarge(LimitError):
    """A payload's content has ``size`` bytes or more, or counts as so many: above what was allowed."""

    def __init__(self, size: int, reason: str = "") -> None:
        super().__init__(reason or f"it decompresses to {size} bytes or more")
        self.size = size


def check_parts(count: int, size_max: int) -> None:
    """Raise ``TooLarge`` for so many blocks, members or frames."""
    if count > max(size_max // PART_BYTES_MIN, _PARTS_ALWAYS):
        raise TooLarge(
            count * PART_BYTES_MIN,
            f"it has {count} blocks or more, and each counts as {PART_BYTES_MIN} bytes",
        )


def room(size: int) -> Uint8s:
    """Room for so many bytes. Options are read from the table of codecs by processes that decompress nothing:
    arrays are imported with the first payload."""
    from .. import arrays

    return arrays.room(size, "uint8")


def decompress_into(library: Any, name: str, data: Buffer, size: int, size_max: int) -> list[Buffer]:
    """What the library makes of the data, which is at most ``size`` bytes, and refused above ``size_max``."""
    target = room(min(size, size_max))
    try:
        written: int = library.decompress_into(data, target)
    except cramjam.DecompressionError as error:
        if str(error) == _NO_ROOM and size > size_max:
            raise TooLarge(size_max + 1) from error
        raise CorruptDataError(f"its {name} data are damaged ({error})") from error
    return [fitted(target, written)]


def fitted(target: Uint8s, written: int) -> Buffer:
    """What was written to the target: a copy where most of it was room, which would be kept with it."""
    content = target.data[:written]
    return content if 2 * written >= len(target) else bytes(content)
