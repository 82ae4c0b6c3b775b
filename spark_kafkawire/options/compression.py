"""Options of the compression of writes, for both generations, derived from the table of codecs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..errors import OptionError
from ..model import Generation
from ..records.compression.codec import Format
from ..records.compression.table import CODECS, codec_names
from .option import WRITE, Option, choice, count, kafka_name, option, string
from .raw import RawOptions

#: The values of ``compression``. The connection to a broker shows if it is new enough.
COMPRESSIONS: Final[Mapping[Generation, tuple[str, ...]]] = MappingProxyType(
    {
        Generation.V07: codec_names(Format.MESSAGE_SET),
        Generation.MODERN: codec_names(Format.MAGIC_2),
    }
)
#: The compressions that have levels, and their lowest and highest ones. Options hold no negative numbers. For
#: codecs with negative levels the lowest is 1, because 0 means the default.
LEVELS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        codec.name: (1 if codec.levels[0] < 0 else codec.levels[0], codec.levels[1])
        for codec in CODECS.values()
        if codec.levels
    }
)
#: Kafka's names of ``compressionLevel``: one for each codec. Only the name of the chosen codec counts.
LEVEL_OPTIONS: Final[Mapping[str, Option[str | None]]] = MappingProxyType(
    {
        name: kafka_name(f"kafka.compression.{name}.level", "compressionLevel", string, WRITE)
        for name in LEVELS
    }
)


def _compressions_meaning() -> str:
    """The meaning of ``compression``."""
    everywhere = COMPRESSIONS[Generation.V07]
    later = [codec for codec in CODECS.values() if codec.name not in everywhere]
    return (
        ", ".join(f"`{name}`" for name in everywhere)
        + ", and from 0.8 on "
        + ", ".join(f"`{codec.name}` ({codec.since})" for codec in later)
    )


def _levels_meaning() -> str:
    """The meaning of ``compressionLevel``."""
    (first, (low, high)), *others = LEVELS.items()
    return "; ".join(
        (f"{first}'s level, {low} to {high}", *(f"{name}'s, {low} to {high}" for name, (low, high) in others))
    )


# The choice depends on the generation, and the levels on the choice.
COMPRESSION: Final = option(
    "compression",
    string,
    default="none",
    sides=WRITE,
    aliases=(kafka_name("kafka.compression.type", "compression", string, WRITE),),
    meaning=_compressions_meaning(),
)
COMPRESSION_LEVEL: Final = option(
    "compressionLevel",
    string,
    sides=WRITE,
    aliases=tuple(LEVEL_OPTIONS.values()),
    meaning=_levels_meaning(),
)


def parse_compression(options: RawOptions, generation: Generation) -> tuple[str, int | None]:
    """The compression of a write and its level. Raises ``OptionError`` (fatal)."""
    given = options[COMPRESSION]
    compression = choice(*COMPRESSIONS[generation])(options.name_of(COMPRESSION), given)
    own = [LEVEL_OPTIONS[compression]] if compression in LEVEL_OPTIONS else []
    chosen = options.chosen(COMPRESSION_LEVEL, *own)
    level = options.one_of(chosen)
    if level is None:
        return compression, None
    if compression not in LEVELS:
        raise OptionError(f"option {chosen.name} is not for compression={compression}; leave it out")
    return compression, count(*LEVELS[compression])(chosen.name, level)
