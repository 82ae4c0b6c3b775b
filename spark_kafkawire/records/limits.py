"""What decoding may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import OptionError

#: Arrow's binary type addresses the values of one batch by int32.
VALUE_BYTES_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What one call of ``decode`` may take.

    ``decompressed_bytes_max`` (bytes) bounds all that one outermost message becomes, its nested
    ones together. ``depth_max`` (levels) bounds the compressed messages around a plain one.
    ``batch_bytes_max`` (bytes of decompressed messages) is where a call stops: with the outermost
    message whose content reaches it.
    """

    decompressed_bytes_max: int = 256 * 2**20
    depth_max: int = 8
    batch_bytes_max: int = 32 * 2**20

    def __post_init__(self) -> None:
        if min(self.decompressed_bytes_max, self.depth_max, self.batch_bytes_max) < 1:
            raise OptionError("maxDecompressedBytes and the other limits of decoding must be positive")
        if self.decompressed_bytes_max + self.batch_bytes_max > VALUE_BYTES_MAX:
            raise OptionError(
                f"maxDecompressedBytes {self.decompressed_bytes_max} and a batch of"
                f" {self.batch_bytes_max} bytes are together above {VALUE_BYTES_MAX}: lower the first"
            )


DEFAULT_LIMITS: Final = DecodeLimits()
