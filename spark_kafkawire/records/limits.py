"""What decoding may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import OptionError

#: What a message takes at least in memory (columns, and the index they are made of), bytes.
MESSAGE_BYTES_MIN: Final = 128
#: The same of a message that a compressed one of Kafka 0.8 to 0.10 holds, whose index is wider.
LEGACY_MESSAGE_BYTES_MIN: Final = 256
#: What a compressed message inside of another one counts as at least, bytes: opening it takes so much time.
COMPRESSED_BYTES_MIN: Final = 4096
#: Arrow's binary type addresses the values of one batch by int32.
VALUE_BYTES_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What one call of ``decode``, or one part of ``decode_batches``, may take.

    ``decompressed_bytes_max`` (bytes) bounds all that one outermost message or batch becomes, nested
    messages together, and what a codec allocates for it, but for windows of up to 8 MiB.
    ``depth_max`` (levels) bounds the compressed messages around a plain one. ``batch_bytes_max``
    (bytes of decompressed messages) is where a call stops: with the outermost message whose content
    reaches it. Both count a message or header as 128 bytes at least, a codec's block as 64, and a compressed
    message inside of another one as 4 KiB: so memory is at most nine quarters of their sum, for the content
    and the columns made of it, and time is a second or two where kernels are compiled, also where all
    messages are empty. Interpreted kernels take ten times as long and more.
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

    @property
    def rows_max(self) -> int:
        """Most rows of one call."""
        return max(1, (self.decompressed_bytes_max + self.batch_bytes_max) // MESSAGE_BYTES_MIN)


DEFAULT_LIMITS: Final = DecodeLimits()
