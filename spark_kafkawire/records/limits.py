"""Limits of memory and time in decoding record bytes of every Kafka version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import OptionError

#: Least memory of a message (columns, and the index they are made of), bytes.
MESSAGE_BYTES_MIN: Final = 128
#: The same for a message inside a compressed one of Kafka 0.8 to 0.10, whose index is wider.
LEGACY_MESSAGE_BYTES_MIN: Final = 256
#: Least size that a compressed message inside another one counts as, bytes, because of the time to open it.
COMPRESSED_BYTES_MIN: Final = 4096
#: Arrow's binary type addresses the values of one batch by int32.
VALUE_BYTES_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """Limits of one call of ``decode``, or of one part of ``decode_batches``.

    ``decompressed_bytes_max`` (bytes) bounds the decompressed content of one outermost message or batch, with
    all nested messages, and the memory that a codec allocates for it, except windows of up to 8 MiB.
    ``depth_max`` (levels) bounds the compressed messages around a plain one. A call stops at
    ``batch_bytes_max`` (bytes of decompressed messages), after the outermost message that reaches it. Both
    count a message or header as 128 bytes at least, a codec's block as 64, and a compressed message inside
    another one as 4 KiB. So the content and its columns take at most nine quarters of their sum in memory.
    With compiled kernels a call takes a second or two, even if all messages are empty; with interpreted ones
    ten times as long or more.
    """

    decompressed_bytes_max: int = 256 * 2**20
    depth_max: int = 8
    batch_bytes_max: int = 32 * 2**20

    def __post_init__(self) -> None:
        if min(self.decompressed_bytes_max, self.depth_max, self.batch_bytes_max) < 1:
            raise OptionError(
                "maxDecompressedBytes and the other limits of decoding must be positive: set 1 or more"
            )
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
