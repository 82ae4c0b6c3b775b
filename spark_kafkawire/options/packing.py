"""Option that packs small ranges of many partitions into one Spark partition, and what contradicts it."""

from __future__ import annotations

from typing import Final

from ..errors import OptionError
from ..model import WireFormat
from .discovery import Discovery
from .key_order import KEY_ORDER
from .option import READ, flag, option
from .raw import RawOptions
from .splitting import MIN_PARTITIONS

PACK_SMALL_PARTITIONS: Final = option(
    "packSmallPartitions",
    flag,
    default="false",
    sides=READ,
    meaning="`true`: read small ranges of many partitions in one Spark partition, with one request",
)


def parse_packing(options: RawOptions, discovery: Discovery, wire_format: WireFormat | None) -> bool | None:
    """True if small ranges are packed, False if they could be; None if other options rule it out.

    Raises ``OptionError`` (fatal) for an option that contradicts it.
    """
    reason = _reason_against_it(options, discovery, wire_format)
    if reason is None:
        return options[PACK_SMALL_PARTITIONS]
    if options[PACK_SMALL_PARTITIONS]:
        raise OptionError(f"option {PACK_SMALL_PARTITIONS.name}=true {reason}")
    return None


def _reason_against_it(
    options: RawOptions, discovery: Discovery, wire_format: WireFormat | None
) -> str | None:
    if options.given(MIN_PARTITIONS):
        return f"makes fewer Spark partitions, and {MIN_PARTITIONS.name} more: leave out one of them"
    if options[KEY_ORDER]:
        return f"packs ranges, and {KEY_ORDER.name} chains them: leave out one of them"
    if discovery.directories is not None:
        return "packs requests to brokers, and log directories need none: leave it out"
    if wire_format is WireFormat.PROPOSAL:
        return (
            "cannot be combined with wireFormat=proposal, whose fetches have no size: leave out one of them"
        )
    return None
