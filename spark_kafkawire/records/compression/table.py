"""The compressions of Kafka 0.8 and later, by number and by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...errors import OptionError, quoted
from .gzip import GZIP, SNAPPY, Codec
from .lz4 import LZ4, LZ4_MAGIC_0
from .zstd import ZSTD

#: The codecs of each magic by the number that attributes hold; 0 is no compression.
CODECS: Final[Mapping[int, Mapping[int, Codec]]] = MappingProxyType(
    {
        magic: MappingProxyType({codec.number: codec for codec in codecs})
        for magic, codecs in enumerate(
            ((GZIP, SNAPPY, LZ4_MAGIC_0), (GZIP, SNAPPY, LZ4), (GZIP, SNAPPY, LZ4, ZSTD))
        )
    }
)
#: What the option ``kafka.compression.type`` may be.
NAMES: Final = ("none", *(codec.name for codec in CODECS[2].values()))


def codec_named(name: str, magic: int = 2) -> Codec | None:
    """The codec of that name in messages of that magic; None for ``none``.

    Raises ``OptionError`` (fatal) for an unknown name, or one that the magic has not.
    """
    if name not in NAMES:
        raise OptionError(f"compression is one of {', '.join(NAMES)}, not {quoted(name)}")
    found = next((codec for codec in CODECS[magic].values() if codec.name == name), None)
    if found is None and name != "none":
        raise OptionError(f"compression {name} needs Kafka 2.1 or later, and this broker is older")
    return found
