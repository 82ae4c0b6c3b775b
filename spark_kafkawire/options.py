"""Option strings become frozen values here, and nowhere else.

``OPTIONS`` is the table of every option: README's tables are checked against it. Option names are
case-insensitive, as Spark's are; sizes take a unit (``4MiB``), and so do times (``30s``; a bare
number is milliseconds). Every error names the option, its value, and what it may be.
"""

from __future__ import annotations

import difflib
import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import OptionError
from .model import Broker, TopicPartition
from .net.retry import RetryPolicy
from .protocol.v07 import MESSAGE_SIZE_MAX


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as documented, its default as documented, and who takes it."""

    name: str
    default: str | None
    meaning: str
    read: bool = True
    write: bool = True


def _read(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, write=False)


def _write(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, meaning, read=False)


OPTIONS: Final = (
    Option("zookeeper.connect", None, "`h:p,h:p/chroot`: brokers and topics from ZooKeeper"),
    Option("zookeeper.auth", None, "`digest:user:password`: how to log in to ZooKeeper"),
    Option("broker.list", None, "`id:h:p,id:h:p`: the brokers, without ZooKeeper"),
    Option("requestTimeout", "30s", "deadline of each wait for a broker or for ZooKeeper"),
    Option("retries", "3", "how often a failed request is tried again (a write only connects again)"),
    Option("retryBackoff", "100ms", "wait before the first retry; it doubles, up to 10 s"),
    _read("subscribe", None, "topics, `a,b`"),
    _read("subscribePattern", None, "a regular expression found somewhere in the topic name"),
    _read("assign", None, '`{"t":["0-0","1-2"]}`: broker-partitions'),
    _read("startingOffsets", "earliest", '`earliest`, `latest` or `{"t":{"0-1":123}}`; -2 is earliest'),
    _read("endingOffsets", "latest", '`latest` or `{"t":{"0-1":456}}`; -1 is latest'),
    _read("startingTimestamp", None, "milliseconds since 1970; beats the two below it and startingOffsets"),
    _read(
        "endingTimestamp", None, "milliseconds since 1970; beats endingOffsetsByTimestamp and endingOffsets"
    ),
    _read("startingOffsetsByTimestamp", None, '`{"t":{"0-1":1700000000000}}`; beats startingOffsets'),
    _read("endingOffsetsByTimestamp", None, '`{"t":{"0-1":1700000000000}}`; beats endingOffsets'),
    _read("startingOffsetsByTimestampStrategy", "error", "nothing is that young: `error` or `latest`"),
    _read("failOnDataLoss", "true", "`false`: a warning and what is left, where offsets are gone"),
    _read("minPartitions", None, "split large ranges into at least so many Spark partitions"),
    _read("maxBytesPerPartition", None, "split ranges larger than this"),
    _read("fetchBytes", "1MiB", "size of one fetch window"),
    _read("fetchesInFlight", "4", "fetch windows outstanding on one connection"),
    _read("maxMessageBytes", "64MiB", "a larger message is an error"),
    _read("maxDecompressedBytes", "256MiB", "what one compressed message may become"),
    _write("topic", None, "the topic to write to; beats a `topic` column"),
    _write("compression", "none", "`none`, `gzip` or `snappy`"),
    _write("compressionLevel", None, "gzip's level, 0 to 9"),
    _write("acks", "1", "`0`, `1` or `verify`: what is proven before a task succeeds"),
    _write("batchBytes", "1MiB", "bytes of messages gathered for one request"),
    _write("max.message.size", str(MESSAGE_SIZE_MAX), "the brokers' own setting of that name"),
)

_SIZE_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIME_UNITS: Final = {"ms": 0.001, "": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
#: Largest value of a size option, bytes: Arrow's offsets and the protocol's lengths are int32.
_SIZE_MAX: Final = 1 << 30


class LimitKind(enum.Enum):
    """How one end of a range is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """One end of one log's range. ``value``: an offset, or milliseconds since 1970."""

    kind: LimitKind
    value: int = 0


EARLIEST: Final = OffsetLimit(LimitKind.EARLIEST)
LATEST: Final = OffsetLimit(LimitKind.LATEST)


@dataclass(frozen=True, slots=True)
class OffsetLimits:
    """One end of every log's range: the same for all, or one for each log by name.

    ``option`` is the option it came from, for messages.
    """

    option: str
    for_all: OffsetLimit | None = None
    by_log: Mapping[TopicPartition, OffsetLimit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Where brokers are learned from: exactly one of ZooKeeper and a fixed list."""

    zookeeper_connect: str | None = None
    zookeeper_auth: tuple[str, str] | None = field(default=None, repr=False)
    broker_list: tuple[Broker, ...] = ()


@dataclass(frozen=True, slots=True)
class NetOptions:
    """Deadlines and retries of every request."""

    request_timeout_s: float = 30.0
    retry: RetryPolicy = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which logs to read: exactly one is set."""

    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How an executor reads one range; all sizes in bytes."""

    fetch_bytes: int = 1 << 20
    fetches_in_flight: int = 4
    message_bytes_max: int = 64 << 20
    decompressed_bytes_max: int = 256 << 20
    fail_on_data_loss: bool = True


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
    partition_bytes_max: int | None
    fetch: FetchOptions

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> ReadOptions:
        """Read and check all options of a read. Raises ``OptionError`` (fatal)."""
        options = _Raw(raw, read=True)
        return cls(
            discovery=_discovery(options),
            net=_net(options),
            selection=_selection(options),
            starting=_limits(options, "starting", forbidden=LATEST),
            ending=_limits(options, "ending", forbidden=EARLIEST),
            latest_if_no_match=options.choice("startingOffsetsByTimestampStrategy", "error", "latest")
            == "latest",
            min_partitions=options.count("minPartitions", 1, 1_000_000),
            partition_bytes_max=options.size("maxBytesPerPartition", 1, 1 << 62),
            fetch=_fetch(options),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options of one write; all sizes in bytes."""

    discovery: Discovery
    net: NetOptions
    topic: str | None
    compression: str
    compression_level: int | None
    acks: str
    batch_bytes: int
    message_size_max: int

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> WriteOptions:
        """Read and check all options of a write. Raises ``OptionError`` (fatal)."""
        options = _Raw(raw, read=False)
        compression = options.choice("compression", "none", "gzip", "snappy")
        level = options.count("compressionLevel", 0, 9)
        if level is not None and compression != "gzip":
            raise OptionError(
                f"option compressionLevel is for compression=gzip, not for {compression}; leave it out"
            )
        topic = options.get("topic")
        return cls(
            discovery=_discovery(options),
            net=_net(options),
            topic=topic.strip() if topic is not None else None,
            compression=compression,
            compression_level=level,
            acks=options.choice("acks", "0", "1", "verify"),
            batch_bytes=options.size_or_default("batchBytes", 1),
            message_size_max=options.size_or_default("max.message.size", 1),
        )


class _Raw:
    """The user's strings, each looked up under its documented name."""

    def __init__(self, raw: Mapping[str, str], *, read: bool) -> None:
        known = {option.name.lower(): option for option in OPTIONS if (option.read if read else option.write)}
        self._values: dict[str, str] = {}
        self._known = known
        for name, value in raw.items():
            option = known.get(name.lower())
            if option is None:
                raise _unknown(name, read)
            self._values[option.name] = value

    def get(self, name: str) -> str | None:
        """The value the user gave, or the documented default, or None."""
        return self._values.get(name, self._known[name.lower()].default)

    def given(self, *names: str) -> list[str]:
        """Those of the options that the user set."""
        return [name for name in names if name in self._values]

    def choice(self, name: str, *allowed: str) -> str:
        value = (self.get(name) or "").strip().lower()
        if value not in allowed:
            raise _bad(name, value, " or ".join(allowed))
        return value

    def flag(self, name: str) -> bool:
        return self.choice(name, "true", "false") == "true"

    def count(self, name: str, low: int, high: int) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"\d{1,19}", text.strip()) or not low <= int(text) <= high:
            raise _bad(name, text, f"a whole number from {low} to {high}")
        return int(text)

    def size(self, name: str, low: int, high: int = _SIZE_MAX) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        match = re.fullmatch(r"(\d{1,19})\s*(?:([kmg])(?:i?b)?|b)?", text.strip().lower())
        size = int(match[1]) * _SIZE_UNITS[match[2] or ""] if match else -1
        if not low <= size <= high:
            raise _bad(name, text, f"a size from {low} to {high} bytes, like 65536 or 4MiB")
        return size

    def size_or_default(self, name: str, low: int) -> int:
        size = self.size(name, low)
        assert size is not None
        return size

    def seconds(self, name: str) -> float:
        text = self.get(name) or ""
        match = re.fullmatch(r"(\d{1,12})\s*(ms|s|m|min|h)?", text.strip().lower())
        if not match or int(match[1]) == 0:
            raise _bad(name, text, "a time above zero, like 500ms or 30s")
        return int(match[1]) * _TIME_UNITS[match[2] or ""]


def _unknown(name: str, read: bool) -> OptionError:
    names = [option.name for option in OPTIONS if (option.read if read else option.write)]
    side = "read" if read else "write"
    if any(option.name.lower() == name.lower() for option in OPTIONS):
        return OptionError(f"option {name} is for {'writing' if read else 'reading'}, not for a {side}")
    if name.lower() == "path":
        return OptionError(f"{'load' if read else 'save'}() takes no path: topics are options")
    close = difflib.get_close_matches(name.lower(), [known.lower() for known in names], n=1)
    hint = next((f"; did you mean {known}?" for known in names if [known.lower()] == close), "")
    return OptionError(f"unknown option {name} for a {side}{hint or '; known are: ' + ', '.join(names)}")


def _bad(name: str, value: str, allowed: str) -> OptionError:
    return OptionError(f"option {name}: {value!r} is not {allowed}")


def _discovery(options: _Raw) -> Discovery:
    given = options.given("zookeeper.connect", "broker.list")
    if len(given) != 1:
        problem = "none is set" if not given else "both are set"
        raise OptionError(f"set exactly one of the options zookeeper.connect and broker.list: {problem}")
    auth = options.get("zookeeper.auth")
    if given == ["broker.list"]:
        if auth is not None:
            raise OptionError("option zookeeper.auth goes with zookeeper.connect, not with broker.list")
        return Discovery(broker_list=_broker_list(options.get("broker.list") or ""))
    scheme, separator, credential = (auth or "").partition(":")
    if auth is not None and (scheme != "digest" or ":" not in credential or not separator):
        raise OptionError(
            "option zookeeper.auth: not of the form digest:user:password (its value is not shown)"
        )
    connect = (options.get("zookeeper.connect") or "").strip()
    hosts, _, chroot = connect.partition("/")
    host = r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
    if not re.fullmatch(rf"{host}(?:\s*,\s*{host})*", hosts) or re.search(r"//|\s", f"/{chroot}"):
        raise _bad("zookeeper.connect", connect, "of the form host:port,host:port/chroot")
    return Discovery(zookeeper_connect=connect, zookeeper_auth=(scheme, credential) if auth else None)


def _broker_list(text: str) -> tuple[Broker, ...]:
    brokers = []
    for entry in (part.strip() for part in text.split(",")):
        match = re.fullmatch(r"(\d{1,9}):(\[[0-9a-fA-F:]+\]|[^\s:]+):(\d{1,5})", entry)
        if not match or not 0 < int(match[3]) < 65536:
            raise _bad("broker.list", text, "of the form id:host:port,id:host:port")
        brokers.append(Broker(int(match[1]), match[2].strip("[]"), int(match[3])))
    if len({broker.id for broker in brokers}) != len(brokers):
        raise OptionError(f"option broker.list: {text!r} has a broker id twice")
    return tuple(sorted(brokers))


def _net(options: _Raw) -> NetOptions:
    retries = options.count("retries", 0, 1000)
    assert retries is not None
    return NetOptions(
        options.seconds("requestTimeout"), RetryPolicy(retries, options.seconds("retryBackoff"))
    )


def _fetch(options: _Raw) -> FetchOptions:
    in_flight = options.count("fetchesInFlight", 1, 64)
    assert in_flight is not None
    return FetchOptions(
        fetch_bytes=options.size_or_default("fetchBytes", 1 << 10),
        fetches_in_flight=in_flight,
        message_bytes_max=options.size_or_default("maxMessageBytes", 1),
        decompressed_bytes_max=options.size_or_default("maxDecompressedBytes", 1),
        fail_on_data_loss=options.flag("failOnDataLoss"),
    )


def _selection(options: _Raw) -> Selection:
    given = options.given("subscribe", "subscribePattern", "assign")
    if len(given) != 1:
        problem = "none is set" if not given else " and ".join(given) + " are set"
        raise OptionError(f"set exactly one of the options subscribe, subscribePattern and assign: {problem}")
    text = (options.get(given[0]) or "").strip()
    if given == ["subscribe"]:
        topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
        if not topics:
            raise _bad("subscribe", text, "a topic or a list of topics, a,b")
        return Selection(subscribe=topics)
    if given == ["assign"]:
        return Selection(assign=_assign(text))
    try:
        if text:
            re.compile(text)
            return Selection(pattern=text)
    except re.error as error:
        raise OptionError(
            f"option subscribePattern: {text!r} is not a regular expression: {error}"
        ) from error
    raise _bad("subscribePattern", text, "a regular expression")


def _assign(text: str) -> tuple[TopicPartition, ...]:
    example = '{"t":["0-0","1-2"]} (broker-partition)'
    logs = []
    for topic, names in _json_object("assign", text, example).items():
        if not isinstance(names, list) or not names:
            raise _bad("assign", text, example)
        logs += [_log("assign", topic, name, text, example) for name in names]
    return tuple(sorted(set(logs)))


def _limits(options: _Raw, end: str, forbidden: OffsetLimit) -> OffsetLimits:
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
        raise _bad(name, text, f"{example} in a batch read")
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
            raise _bad(name, text, example)
        for partition, value in partitions.items():
            if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > 63:
                raise _bad(name, text, example)
            values[_log(name, topic, partition, text, example)] = value
    return values


def _log(name: str, topic: str, partition: Any, text: str, example: str) -> TopicPartition:
    match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", partition) if isinstance(partition, str) else None
    if match is None or not topic:
        raise _bad(name, text, f"of the form {example}")
    return TopicPartition(topic, int(match[2]), int(match[1]))


def _json_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not value:
        raise _bad(name, text, f"of the form {example}")
    return value
