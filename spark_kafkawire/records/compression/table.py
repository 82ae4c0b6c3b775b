"""The one table of codecs: add a codec in a module of its own, and here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.protocol.primitives import Buffer

from .codec import Codec, Format, damaged
from .gzip import GZIP
from .lz4 import LZ4, LZ4_MAGIC_0
from .snappy import SNAPPY
from .zstd import ZSTD

#: Of those with one name the newest is the last.
_ALL: Final = (GZIP, SNAPPY, LZ4_MAGIC_0, LZ4, ZSTD)
#: Value of the option ``compression`` without compression; its number in attributes is 0.
NONE: Final = "none"
#: The codecs by name, each once.
CODECS: Final[Mapping[str, Codec]] = MappingProxyType({codec.name: codec for codec in _ALL})
#: Those of each format by their number.
_BY_NUMBER: Final[Mapping[Format, Mapping[int, Codec]]] = MappingProxyType(
    {
        each: MappingProxyType({codec.number: codec for codec in _ALL if each in codec.formats})
        for each in Format
    }
)


def names_by_number() -> Mapping[int, str]:
    """The names of all codecs, ``none`` too, by their number in attributes, which is the same in all
    formats."""
    return {0: NONE, **{codec.number: codec.name for codec in _ALL}}


def codec_names(format: Format) -> tuple[str, ...]:
    """Values of the option ``compression`` for messages of that format."""
    return NONE, *(codec.name for codec in _BY_NUMBER[format].values())


def codec_named(name: str, format: Format) -> Codec | None:
    """The codec of that name; None for ``none``.

    Raises ``OptionError`` (fatal) for an unknown name, or one that the format does not support.
    """
    if name == NONE:
        return None
    for codec in _BY_NUMBER[format].values():
        if codec.name == name:
            return codec
    names = ", ".join(codec_names(format))
    if name in CODECS:
        raise OptionError(
            f"compression {name} needs Kafka {CODECS[name].since} or later, and this broker is older;"
            f" choose one of {names}"
        )
    raise OptionError(f"compression {quoted(name)} is unknown; choose one of {names}")


def decompress(number: int, format: Format, payload: memoryview, size_max: int) -> list[Buffer]:
    """Decompress a payload with the codec of that number; the result comes in parts.

    Raises ``CorruptDataError`` for damage and a number that the format does not support, ``TooLarge`` for a
    result above ``size_max`` bytes. Both are fatal; the caller adds the place to the message.
    """
    codec = _BY_NUMBER[format].get(number)
    if codec is None:
        raise damaged(f"its compression codec {number} is unknown")
    return codec.decompress(payload, size_max)
