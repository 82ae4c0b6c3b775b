"""A read through a proxy, with options drawn from its seed, and whether its rows are the truth."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tests.support.reading import PlannedRead

from .truth import READ_COMMITTED, READ_UNCOMMITTED, Log, Row, Truth

Options = dict[str, str]

#: Deadlines such that an operation takes a fraction of a second, and survives a busy machine.
QUICK: Final = {"requestTimeout": "1s", "retryBackoff": "5ms"}
_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_BY_TIME: Final = ("startingTimestamp", "startingOffsetsByTimestamp")
_FETCH_BYTES: Final = ("1KiB", "1500", "2KiB", "5000", "16KiB", "64KiB", "8MiB")


@dataclass(frozen=True, slots=True)
class Range:
    """Range of offsets of a log that is read."""

    log: Log
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """The options of a read, and the rows that it must give."""

    options: Options
    expected: list[Row]


def draw(chance: random.Random, truth: Truth, finding: Options, *, is_07: bool) -> Drawn:
    """A read of some topics of brokers, which are found by the last options."""
    topics = chance.sample(sorted(truth), min(len(truth), chance.choice((1, 1, 2, 3))))
    options, logs = _selected(chance, truth, topics, lists="broker.list" not in finding)
    isolation = chance.choice((READ_UNCOMMITTED, READ_COMMITTED))
    options |= {**QUICK, **finding, "fetchBytes": chance.choice(_FETCH_BYTES), **persistence(chance)}
    if is_07:
        options["fetchesInFlight"] = str(chance.choice((1, 2, 4, 8)))
    else:
        options |= {
            "includeHeaders": "true",
            "kafka.isolation.level": isolation,
            "kafkaConsumer.pollTimeoutMs": "1s",
        }
    if chance.random() < 0.3:
        options["packSmallPartitions"] = "true"
    elif chance.random() < 0.3:
        options["minPartitions"] = str(chance.randrange(2, 12))
    if chance.random() < 0.3:
        name, limits = ("Bytes", ("2KiB", "10KiB")) if is_07 else ("Records", ("7", "20", "100"))
        options[f"max{name}PerPartition"] = chance.choice(limits)
    bounded, ranges = _limits(chance, logs)
    expected = [row for part in ranges for row in part.log.between(part.start, part.stop, isolation)]
    return Drawn({**options, **bounded}, expected)


def persistence(chance: random.Random) -> Options:
    """Options for how often, or for how long, a failed request is tried again."""
    return (
        {"retries": str(chance.choice((1, 3, 5)))} if chance.random() < 0.7 else {"brokerDownTimeout": "2s"}
    )


def _selected(
    chance: random.Random, truth: Truth, topics: Sequence[str], *, lists: bool
) -> tuple[Options, list[Log]]:
    """Options that name logs, by a pattern only where brokers list their topics, and the logs."""
    logs = [log for topic in topics for log in truth[topic]]
    how = chance.choice(("subscribe", "subscribePattern" if lists else "subscribe", "assign"))
    if how == "subscribe":
        return {how: ",".join(topics)}, logs
    if how == "subscribePattern":
        return {how: f"^({'|'.join(topics)})$"}, logs
    chosen = chance.sample(logs, chance.randrange(1, len(logs) + 1))
    names = {log: log.partition if log.broker is None else log.name for log in chosen}
    return {how: json.dumps(by_topic(names, list))}, chosen


def by_topic(values: Mapping[Log, Any], kind: type) -> dict[str, Any]:
    """Values of logs as options have them: a list or a dictionary for each topic."""
    result: dict[str, Any] = {}
    for log, value in values.items():
        if kind is list:
            result.setdefault(log.topic, []).append(value)
        else:
            result.setdefault(log.topic, {})[log.name] = value
    return result


def _limits(chance: random.Random, logs: Sequence[Log]) -> tuple[Options, list[Range]]:
    """Options for the start and the end of the read, and its ranges. Starts after their end
    are drawn again."""
    while True:
        starting, starts = _limit(chance, logs, "starting")
        ending, stops = _limit(chance, logs, "ending")
        ranges = [Range(log, starts[log], stops[log]) for log in logs]
        times = [int(value) for name, value in (starting | ending).items() if name.endswith("ingTimestamp")]
        if all(part.start <= part.stop for part in ranges) and times == sorted(times):
            result = {**starting, **ending}
            after_all = any(name.startswith(_BY_TIME) for name in result)
            return result | ({_STRATEGY: "latest"} if after_all else {}), ranges


def _limit(chance: random.Random, logs: Sequence[Log], side: str) -> tuple[Options, dict[Log, int]]:
    """Options for one limit of a read, and its offset in each log."""
    name, any_offset = ("earliest", -2) if side == "starting" else ("latest", -1)
    ends = {log: log.start if side == "starting" else log.stop for log in logs}
    hows = ["nothing", name, "numbers", "numbers", *(("time", "times") if logs[0].at_times else ())]
    how = chance.choice(hows)
    if how == "numbers":
        drawn = {log: chance.choice((any_offset, chance.choice(log.bounds))) for log in logs}
        offsets = {log: ends[log] if offset == any_offset else offset for log, offset in drawn.items()}
        return {f"{side}Offsets": json.dumps(by_topic(drawn, dict))}, offsets
    if how == "time":
        stamp = chance.choice(sorted(logs[0].at_times))
        return {f"{side}Timestamp": str(stamp)}, {log: log.at_times[stamp] for log in logs}
    if how == "times":
        stamps = {log: chance.choice(sorted(log.at_times)) for log in logs}
        options = {f"{side}OffsetsByTimestamp": json.dumps(by_topic(stamps, dict))}
        return options, {log: log.at_times[stamp] for log, stamp in stamps.items()}
    return ({} if how == "nothing" else {f"{side}Offsets": name}), ends


def read(options: Options) -> list[Row]:
    """All rows of a read, planned as the driver does and read as tasks do, all that travels pickled."""
    rows: list[Row] = []
    for batch in PlannedRead(options).batches():
        batch.validate(full=True)
        rows += rows_of(batch)
    return rows


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch with all columns of a read."""
    times = batch.column("timestamp").cast(pa.int64())
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    nothing = [None] * batch.num_rows
    for number, stamp in enumerate(times.to_pylist()):
        at = {name: columns.get(name, nothing)[number] for name in {**columns, "broker": 0, "headers": 0}}
        headers = tuple((item["key"], item["value"]) for item in at["headers"] or ())
        yield Row(
            at["topic"],
            at["broker"],
            at["partition"],
            at["offset"],
            at.get("index", 0),
            at["key"],
            at["value"],
            headers,
            None if stamp is None else _milliseconds(stamp),
            at["timestampType"],
            at.get("nextOffset", -1),
        )


def _milliseconds(stamp_us: int) -> int:
    assert stamp_us % 1000 == 0, stamp_us
    return stamp_us // 1000
