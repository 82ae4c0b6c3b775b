"""Options of a read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import OptionError
from .connect import parse_discovery, parse_net
from .offsets import parse_assign, parse_limits
from .raw import RawOptions, bad_value, shown
from .values import EARLIEST, LATEST, Discovery, FetchOptions, LimitKind, NetOptions, OffsetLimits, Selection


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of one read."""

    discovery: Discovery
    net: NetOptions
    selection: Selection
    starting: OffsetLimits
    ending: OffsetLimits
    latest_if_no_match: bool
    min_partitions: int | None
    partition_size_max: int | None
    fetch: FetchOptions

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> ReadOptions:
        """Read and check all options of a read. Raises ``OptionError`` (fatal)."""
        options = RawOptions(raw, read=True)
        discovery = parse_discovery(options)
        starting = parse_limits(options, "starting", forbidden=LATEST)
        ending = parse_limits(options, "ending", forbidden=EARLIEST)
        _check_order(starting, ending)
        return cls(
            discovery=discovery,
            net=parse_net(options, discovery.dialect),
            selection=_selection(options),
            starting=starting,
            ending=ending,
            latest_if_no_match=options.choice("startingOffsetsByTimestampStrategy", "error", "latest")
            == "latest",
            min_partitions=options.count("minPartitions", 1, 1_000_000),
            partition_size_max=options.size("maxBytesPerPartition", 1, 1 << 62),
            fetch=_fetch(options),
        )


def _check_order(starting: OffsetLimits, ending: OffsetLimits) -> None:
    """Two timestamps for all logs must not run backwards; offsets are checked against each log."""
    first, last = starting.for_all or EARLIEST, ending.for_all or LATEST
    if first.kind is last.kind is LimitKind.TIMESTAMP and first.value > last.value:
        raise OptionError(f"option {starting.option}: {first.value} is after {ending.option}={last.value}")


def _fetch(options: RawOptions) -> FetchOptions:
    in_flight = options.count("fetchesInFlight", 1, 64)
    assert in_flight is not None
    return FetchOptions(
        fetch_bytes=options.size_or_default("fetchBytes", 1 << 10),
        fetches_in_flight=in_flight,
        message_bytes_max=options.size_or_default("maxMessageBytes", 1),
        decompressed_bytes_max=options.size_or_default("maxDecompressedBytes", 1),
        fail_on_data_loss=options.flag("failOnDataLoss"),
    )


def _selection(options: RawOptions) -> Selection:
    given = options.given("subscribe", "subscribePattern", "assign")
    if len(given) != 1:
        problem = "none is set" if not given else " and ".join(given) + " are set"
        raise OptionError(f"set exactly one of the options subscribe, subscribePattern and assign: {problem}")
    text = (options.get(given[0]) or "").strip()
    if given == ["subscribe"]:
        topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
        if not topics:
            raise bad_value("subscribe", text, "a topic or a list of topics, a,b")
        return Selection(subscribe=topics)
    if given == ["assign"]:
        return Selection(assign=parse_assign(text))
    try:
        if text:
            re.compile(text)
            return Selection(pattern=text)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(
            f"option subscribePattern: {shown(text)} is not a regular expression: {error}"
        ) from error
    raise bad_value("subscribePattern", text, "a regular expression")
