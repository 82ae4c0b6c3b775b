"""Declaration of a codec, and the checks that all of them share.

Sizes are checked before memory is taken. Empty blocks cost time, so they count as bytes, too: see
``PART_BYTES_MIN``. Damage raises ``CorruptDataError``, too large a result ``TooLarge``, a ``LimitError``;
both are fatal. The caller adds the place to the message.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import cramjam

from spark_kafkawire.errors import CorruptDataError, LimitError, OptionError
from spark_kafkawire.protocol.primitives import Buffer

if TYPE_CHECKING:
    from ..arrays import Uint8s

#: Least size that a block, member or frame of a payload counts as, in bytes of content: each takes about a
#: microsecond, even an empty one. Writers make blocks of 32 KiB and more.
PART_BYTES_MIN: Final = 64
#: Parts that a payload may have whatever the limit.
_PARTS_ALWAYS: Final = 4096
#: Text of cramjam's error for a result that is larger than its buffer.
_NO_ROOM: Final = "failed to write whole buffer"


class Format(enum.Enum):
    """The formats that hold compressed messages: message sets of Kafka 0.7, and logs by their magic."""

    MESSAGE_SET = "0.7"
    MAGIC_0 = 0
    MAGIC_1 = 1
    MAGIC_2 = 2


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression of some record formats.

    ``name`` is that in options and ``number`` that in attributes. ``since`` is the first release of Kafka
    that has it, ``produce_version`` the first version of Produce that may carry it. ``levels`` are the
    lowest and the highest one, None for a codec without levels. ``decompress(payload, size_max)`` yields the
    parts of the result, ``encode(data, level)`` returns the complete one.
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
        """The payload of these bytes. Raises ``OptionError`` (fatal) for an unsupported level."""
        if level is not None:
            if self.levels is None:
                raise OptionError(
                    f"{self.name} has no compression levels: remove the option compressionLevel"
                )
            low, high = self.levels
            if not low <= level <= high:
                raise OptionError(
                    f"{self.name} has the compression levels {low} to {high}, not {level}: set one of these"
                )
        return self.encode(data, level)


class TooLarge(LimitError):
    """A payload's content has, or counts as, ``size`` bytes or more: above the limit. Its caller adds
    the place to ``reason``."""

    def __init__(self, size: int, reason: str = "") -> None:
        self.size, self.reason = size, reason or f"it decompresses to {size} bytes or more"
        super().__init__(f"compressed records: {self.reason}; raise maxDecompressedBytes")


def damaged(reason: str) -> CorruptDataError:
    """The error for a payload that cannot be decompressed. Its caller adds the place to ``reason``."""
    return CorruptDataError(
        f"compressed records are damaged: {reason}; to read the others, set badRecords=drop", reason=reason
    )


def check_parts(count: int, size_max: int) -> None:
    """Raise ``TooLarge`` for too many blocks, members or frames."""
    if count > max(size_max // PART_BYTES_MIN, _PARTS_ALWAYS):
        raise TooLarge(
            count * PART_BYTES_MIN,
            f"it has {count} compressed blocks or more, and each counts as {PART_BYTES_MIN} bytes",
        )


def room(size: int) -> Uint8s:
    """A buffer of that many bytes. The import of arrays waits for the first payload, because processes that
    decompress nothing read the table of codecs for their options."""
    from .. import arrays

    return arrays.room(size, "uint8")


def decompress_into(library: Any, name: str, data: Buffer, size: int, size_max: int) -> list[Buffer]:
    """Decompress data that becomes at most ``size`` bytes; more than ``size_max`` is refused."""
    target = room(min(size, size_max))
    try:
        written: int = library.decompress_into(data, target)
    except cramjam.DecompressionError as error:
        if str(error) == _NO_ROOM and size > size_max:
            raise TooLarge(size_max + 1) from error
        raise damaged(f"its {name} data are damaged ({error})") from error
    return [fitted(target, written)]


def fitted(target: Uint8s, written: int) -> Buffer:
    """The bytes that were written to the target: a copy if most of the target is unused, because that memory
    would be kept with it."""
    content = target.data[:written]
    return content if 2 * written >= len(target) else bytes(content)
