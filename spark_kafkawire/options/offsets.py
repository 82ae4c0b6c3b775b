"""Options that name broker-partitions, offsets and timestamps, most of them as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import OptionError
from ..model import TopicPartition
from .raw import RawOptions, bad_value
from .values import EARLIEST, LATEST, LimitKind, OffsetLimit, OffsetLimits


def parse_assign(text: str) -> tuple[TopicPartition, ...]:
    example = '{"t":["0-0","1-2"]} (broker-partition)'
    logs = []
    for topic, names in _json_object("assign", text, example).items():
        if not isinstance(names, list) or not names:
            raise bad_value("assign", text, example)
        logs += [_log("assign", topic, name, text, example) for name in names]
    return tuple(sorted(set(logs)))


def parse_limits(options: RawOptions, end: str, forbidden: OffsetLimit) -> OffsetLimits:
    by_order = (f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets")
    name = next(iter(options.given(*by_order)), f"{end}Offsets")
    text = (options.get(name) or "").strip()
    if name.endswith("OffsetsByTimestamp"):
        example = '{"t":{"0-1":1700000000000}}'
        by_log = _by_log(name, text, example)
        if bad := [str(log) for log, value in by_log.items() if value < 0]:
            raise OptionError(f"option {name}: the timestamp of {bad[0]} is negative")
        return OffsetLimits(
            name, by_log={log: OffsetLimit(LimitKind.TIMESTAMP, ms) for log, ms in by_log.items()}
        )
    if name.endswith("Timestamp"):
        value = options.count(name, 0, (1 << 63) - 1)
        assert value is not None
        return OffsetLimits(name, for_all=OffsetLimit(LimitKind.TIMESTAMP, value))
    return _offsets(name, text, forbidden)


def _offsets(name: str, text: str, forbidden: OffsetLimit) -> OffsetLimits:
    allowed = LATEST if forbidden is EARLIEST else EARLIEST
    if text.lower() == allowed.kind.value:
        return OffsetLimits(name, for_all=allowed)
    special = {-2: EARLIEST, -1: LATEST}
    example = f'{allowed.kind.value} or {{"t":{{"0-1":123}}}}'
    if text.lower() == forbidden.kind.value:
        raise bad_value(name, text, f"{example} in a batch read")
    limits = {}
    for log, value in _by_log(name, text, example).items():
        limit = special.get(value, OffsetLimit(LimitKind.OFFSET, value))
        if limit is forbidden or value < -2:
            raise OptionError(
                f"option {name}: {value} for {log} can't be used here; give an offset or {allowed.kind.value}"
            )
        limits[log] = limit
    return OffsetLimits(name, by_log=limits)


def _by_log(name: str, text: str, example: str) -> dict[TopicPartition, int]:
    values = {}
    for topic, partitions in _json_object(name, text, example).items():
        if not isinstance(partitions, dict) or not partitions:
            raise bad_value(name, text, example)
        for partition, value in partitions.items():
            if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > 63:
                raise bad_value(name, text, example)
            values[_log(name, topic, partition, text, example)] = value
    return values


def _log(name: str, topic: str, partition: Any, text: str, example: str) -> TopicPartition:
    match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", partition) if isinstance(partition, str) else None
    if match is None or not topic:
        raise bad_value(name, text, f"of the form {example}")
    return TopicPartition(topic, int(match[2]), int(match[1]))


def _json_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not value:
        raise bad_value(name, text, f"of the form {example}")
    return value
