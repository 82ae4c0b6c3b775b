"""Compression as options have it: all of it is read from the table of codecs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import Generation
from ..records.compression.codec import Format
from ..records.compression.table import CODECS, codec_names

#: What the option ``compression`` may be; whether a broker is new enough is seen when it is connected to.
COMPRESSIONS: Final[Mapping[Generation, tuple[str, ...]]] = MappingProxyType(
    {
        Generation.V07: codec_names(Format.MESSAGE_SET),
        Generation.MODERN: codec_names(Format.MAGIC_2),
    }
)
#: The compressions that have levels, and their lowest and highest ones. Options hold no negative numbers, and
#: where there are some 0 stands for the default.
LEVELS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        codec.name: (1 if codec.levels[0] < 0 else codec.levels[0], codec.levels[1])
        for codec in CODECS.values()
        if codec.levels
    }
)
#: Kafka's names of ``compressionLevel``: one for each codec, of which one counts.
LEVEL_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {name: f"kafka.compression.{name}.level" for name in LEVELS}
)


def compressions_meaning() -> str:
    """What the documentation says of ``compression``."""
    everywhere = COMPRESSIONS[Generation.V07]
    later = [codec for codec in CODECS.values() if codec.name not in everywhere]
    return (
        ", ".join(f"`{name}`" for name in everywhere)
        + ", and from 0.8 on "
        + ", ".join(f"`{codec.name}` ({codec.since})" for codec in later)
    )


def levels_meaning() -> str:
    """What the documentation says of ``compressionLevel``."""
    (first, (low, high)), *others = LEVELS.items()
    return "; ".join(
        (f"{first}'s level, {low} to {high}", *(f"{name}'s, {low} to {high}" for name, (low, high) in others))
    )
