"""Options that limit one batch of a stream: records in modern Kafka, bytes in 0.7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import OptionError
from .option import INT64_MAX, MODERN, READ, V07, count, option, seconds, size
from .raw import RawOptions

MAX_OFFSETS: Final = option(
    "maxOffsetsPerTrigger",
    count(1, INT64_MAX),
    sides=READ,
    generation=MODERN,
    meaning="the largest number of records in one batch, shared by the partitions in proportion to "
    "their lags",
)
MIN_OFFSETS: Final = option(
    "minOffsetsPerTrigger",
    count(1, INT64_MAX),
    sides=READ,
    generation=MODERN,
    meaning="the number of records that a batch waits for",
)
MAX_DELAY: Final = option(
    "maxTriggerDelay",
    # Spark's connector takes any delay; no socket waits for this one.
    seconds(high_s=3650 * 86_400.0),
    default="15m",
    sides=READ,
    generation=MODERN,
    meaning="the longest time that a batch waits for `minOffsetsPerTrigger`",
)
MAX_BYTES: Final = option(
    "maxBytesPerTrigger",
    size(1, INT64_MAX),
    sides=READ,
    generation=V07,
    meaning="the largest number of bytes in one batch, which ends at the end of segments or partitions: at "
    "least one segment of each partition",
)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of one batch of a stream: bytes in 0.7, records later; None without a limit.

    A batch that would be smaller than ``size_min`` waits for ``delay_max_s`` at most.
    """

    size_max: int | None = None
    size_min: int | None = None
    delay_max_s: float = MAX_DELAY.value


def parse_stream_limits(options: RawOptions) -> StreamLimits:
    """The limits of one batch. Raises ``OptionError`` (fatal)."""
    most, least = options[MAX_BYTES] or options[MAX_OFFSETS], options[MIN_OFFSETS]
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger={most}; lower the one, "
            "or raise the other"
        )
    return StreamLimits(most, least, options[MAX_DELAY])
