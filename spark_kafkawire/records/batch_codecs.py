"""The compressions of Kafka 0.8 and later, by number and by name."""

from __future__ import annotations

from typing import Final

from ..errors import OptionError
from .compression import GZIP, SNAPPY, Codec

#: The codecs by the number that attributes hold; 0 is no compression.
CODECS: Final = {codec.number: codec for codec in (GZIP, SNAPPY)}
#: What the option ``compression`` may be.
NAMES: Final = ("none", *(codec.name for codec in CODECS.values()))


def codec_named(name: str) -> Codec | None:
    """The codec of that name; None for ``none``. Raises ``OptionError`` for an unknown name."""
    if name not in NAMES:
        raise OptionError(f"compression is one of {', '.join(NAMES)}, not {name!r}")
    return next((codec for codec in CODECS.values() if codec.name == name), None)
