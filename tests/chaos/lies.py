"""Every lie that a broker can tell in a response, made from the responses' declarations, and its effect.

    run(seed=1, seconds=60)                            # as many as there is time for, in an order of the seed
    tell("read Fetch newest responses.0.topic_id: zero, always")       # one of them again

A lie names the exchange, the API, its version, the part of the response, what is said in its place, and
whether that is said ``always`` or ``once``. Whatever comes of it is what comes of honest answers, or one
of our errors on one printable line, in time. The few lies that no client can tell from the truth stand in
``NOT_TO_BE_KNOWN``.
"""

from __future__ import annotations

import collections
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from spark_kafkawire.errors import TEXT_SIZE_MAX, KafkaWireError
from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.dialects import dialect_of
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.primitives import (
    AnyType,
    Array,
    Bool,
    Bytes,
    Int,
    String,
    Uuid,
)
from spark_kafkawire.protocol.schema import Struct
from spark_kafkawire.protocol.v07.primitives import Rest, RestArray, Sized
from tests.support.log_broker import OFFERED
from tests.support.log_server import Sent
from tests.support.memory_log import split

from .answers import self_contradiction
from .exchanges import EXCHANGES, OTHER_RECORDS, OTHER_TOPIC, SECRET, Exchange
from .lying_broker import Honest
from .shapes import Path, Raw, contradicted, spots, write

#: The deadline of each request while the broker lies, and while it does not.
TIMEOUT_S: Final = 0.2
HONEST_TIMEOUT_S: Final = 60.0
#: An exchange that takes longer hangs: many times what all its deadlines add up to, for busy machines.
HANG_S: Final = 120.0
#: Characters of an error: a few foreign texts, and what is said around them.
ERROR_SIZE_MAX: Final = 12 * TEXT_SIZE_MAX
#: What an exchange came to.
EXACT, REFUSED, NOT_KNOWN, NOT_SENT = "exact", "error", "not to be known", "not sent"

#: Elements of an array that is meant to cost time.
_MANY: Final = 100_000
_CODES: Final = (*ErrorCode, -2, 999, 32_767)
_HOSTILE: Final = "a\nb\x1b[31m\x00\u202e"

#: What is said in place of a value, by the kind of lie; it may be what it was.
Kinds = Mapping[str, Callable[[Any, Any], Any]]


def _bounded(kind: Callable[[int], int]) -> Callable[[Any, int], int]:
    """A number as near to ``kind`` as its type has."""

    def lie(wire_type: Int, value: int) -> int:
        limit: int = 1 << 8 * wire_type.size - 1
        return max(-limit, min(kind(value), limit - 1))

    return lie


def _length(size: int) -> Callable[[Any, Any], Raw]:
    """A length, or a count, that nothing follows."""

    def lie(wire_type: Any, _value: Any) -> Raw:
        out: list[Any] = []
        (wire_type.count if isinstance(wire_type, Array) else wire_type.length).write(size, out)
        return Raw(b"".join(out))

    return lie


def _most(wire_type: Any) -> int:
    """So many elements that they cost time, where the type of the count has as many."""
    count = getattr(wire_type, "count", None)
    return min(_MANY, (1 << 8 * count.size - 1) - 1) if isinstance(count, Int) else _MANY


def _constant(value: Any) -> Callable[[Any, Any], Any]:
    return lambda _, __: value


def _not_utf8(wire_type: Any, _value: Any) -> Raw:
    out: list[Any] = []
    wire_type.length.write(2, out)
    return Raw(b"".join(out) + b"\xff\xfe")


def _made_up(wire_type: AnyType) -> Any:
    """A value of a type, where the honest response has none to change."""
    match wire_type:
        case Struct():
            here = {name: _made_up(field) for name, field, _ in wire_type.members()}
            return wire_type.message(**here)
        case Array() | RestArray():
            return (_made_up(wire_type.element),)
        case Sized():
            return _made_up(wire_type.element)
        case String():
            return "made up"
        case Bytes() | Rest():
            return b"made up"
        case Uuid():
            return uuid.UUID(int=7)
        case Bool():
            return True
    return 1


def _batches(value: Any) -> list[bytes]:
    """The batches of a records field; whatever it is where it has none."""
    data = bytes(value or b"")
    return [bytes(each) for each in split(data)] if len(data) > 61 else [data]


_INTS: Final[Kinds] = {
    "-1": _constant(-1),
    "0": _constant(0),
    "1": _constant(1),
    "min": _bounded(lambda _: -(1 << 63)),
    "max": _bounded(lambda _: 1 << 63),
    "one more": _bounded(lambda value: value + 1),
    "one less": _bounded(lambda value: value - 1),
    "another": _bounded(lambda value: value ^ 0x55),
}
_ERROR_CODES: Final[Kinds] = {f"code {int(code)}": _constant(int(code)) for code in _CODES}
_STRINGS: Final[Kinds] = {
    "empty": _constant(""),
    "null": _length(-1),
    "another topic": _constant(OTHER_TOPIC),
    "long": _constant("x" * 32_767),
    "hostile": _constant(_HOSTILE),
    "not UTF-8": _not_utf8,
    "no end": _length(32_767),
}
#: What a broker may say of what it was told.
_MESSAGES: Final[Kinds] = {**_STRINGS, "the secret": _constant(f"you said {SECRET}")}
_UUIDS: Final[Kinds] = {
    "zero": _constant(uuid.UUID(int=0)),
    "another": lambda _, value: uuid.UUID(int=value.int ^ 1),
    "max": _constant(uuid.UUID(int=(1 << 128) - 1)),
}
_BOOLS: Final[Kinds] = {"the contrary": lambda _, value: not value}
_BYTES: Final[Kinds] = {
    "empty": _constant(b""),
    "null": _length(-1),
    "another log's": _constant(OTHER_RECORDS),
    "cut": lambda _, value: bytes(value or b"")[:-1],
    "half": lambda _, value: bytes(value or b"")[: len(value or b"") // 2],
    "twice": lambda _, value: bytes(value or b"") * 2,
    "first batch": lambda _, value: _batches(value)[0],
    "last batch": lambda _, value: _batches(value)[-1],
    "batches reversed": lambda _, value: b"".join(reversed(_batches(value))),
    "first batch twice": lambda _, value: b"".join([_batches(value)[0], *_batches(value)]),
    "a bit flipped": lambda _, value: bytes(value or b"")[:-1] + bytes([value[-1] ^ 1]) if value else value,
    "no end": _length(1 << 30),
}
_ARRAYS: Final[Kinds] = {
    "empty": _constant(()),
    "null": _length(-1),
    "first twice": lambda _, value: (*value[:1], *value) if value else value,
    "reversed": lambda _, value: value and value[::-1],
    "without first": lambda _, value: value and value[1:],
    "without last": lambda _, value: value and value[:-1],
    "one more": lambda wire_type, value: (*(value or ()), _made_up(wire_type.element)),
    "many": lambda wire_type, value: (value or (_made_up(wire_type.element),))[:1] * _most(wire_type),
    "no end": lambda wire_type, value: _length(_most(wire_type))(wire_type, value),
}
#: Fields that say what a part of a response is about, whatever its API.
_KEYS: Final = ("topic", "partition_index", "index", "group_id", "key", "resource_type", "resource_name")
#: Kinds that are about a length or a count, where a type has one.
_LENGTHS: Final = ("null", "no end")
#: What is done to the whole frame of a response, its length included.
_FRAMES: Final[Mapping[str, Callable[[bytes], Sent]]] = {
    "response to the next request": lambda frame: Sent(frame[:4] + _added(frame[4:8], 1) + frame[8:]),
    "response to the last request": lambda frame: Sent(frame[:4] + _added(frame[4:8], -1) + frame[8:]),
    "sent twice": lambda frame: Sent(frame * 2),
    "one byte more": lambda frame: Sent(_added(frame[:4], 1) + frame[4:] + b"\0"),
    "length one more": lambda frame: Sent(_added(frame[:4], 1) + frame[4:], "close"),
    "length one less": lambda frame: Sent(_added(frame[:4], -1) + frame[4:], "close"),
    "length 0": lambda frame: Sent(bytes(4) + frame[4:], "close"),
    "length -1": lambda frame: Sent(b"\xff" * 4 + frame[4:], "close"),
    "length max": lambda frame: Sent(b"\x7f\xff\xff\xff" + frame[4:], "close"),
    "nothing, and closed": lambda _: Sent(b"", "close"),
    "half, and closed": lambda frame: Sent(frame[: len(frame) // 2], "close"),
    "half, and silence": lambda frame: Sent(frame[: len(frame) // 2], "be silent"),
}


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Lies that no client can tell from the truth, and ``example``, which shows that it is still so.

    Empty ``kinds`` and ``exchanges`` are all of them.
    """

    api: str
    fields: tuple[str, ...]
    reason: str
    example: str
    kinds: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()

    def covers(self, lie: Lie) -> bool:
        """True if the lie is one of them."""
        return (
            lie.api.name == self.api
            and not lie.names.isdisjoint(self.fields)
            and (not self.kinds or lie.kind in self.kinds)
            and (not self.exchanges or lie.exchange.name in self.exchanges)
        )


_REPORTED: Final = "a report shows what the broker says, and nothing else that is asked depends on it"
_ITS_GROUPS: Final = "which groups there are, and what is in them, only their coordinator knows"
_IDENTITY_PLACE: Final = list(OFFERED).index(modern.INIT_PRODUCER_ID.key)
_LED_GROUPS_PLACE: Final = list(OFFERED).index(modern.CONSUMER_GROUP_DESCRIBE.key)
_SHARE_GROUPS_PLACE: Final = list(OFFERED).index(modern.SHARE_GROUP_DESCRIBE.key)
_STREAMS_GROUPS_PLACE: Final = list(OFFERED).index(modern.STREAMS_GROUP_DESCRIBE.key)
_ITS_TRANSACTIONS: Final = "which transactions are open, and whose, only their coordinator knows"
NOT_TO_BE_KNOWN: Final = (
    NotKnown(
        "DescribeTransactions",
        ("transaction_state", "producer_id", "producer_epoch", "topic"),
        _ITS_TRANSACTIONS,
        "transact DescribeTransactions newest transaction_states.0.producer_epoch: 1, always",
    ),
    NotKnown(
        "EndTxn",
        ("producer_id", "producer_epoch"),
        "who may begin the next transaction, only its coordinator knows",
        "transact EndTxn newest producer_epoch: max, always",
    ),
    NotKnown(
        "ApiVersions",
        ("finalized_features", "name", "max_version_level"),
        "which protocol of transactions a cluster agreed on, only its brokers know",
        "transact ApiVersions newest finalized_features.0.max_version_level: one more, always",
        exchanges=("transact",),
    ),
    NotKnown(
        "ListTransactions",
        ("transaction_states", "transactional_id"),
        _ITS_TRANSACTIONS,
        "transact ListTransactions newest transaction_states: empty, always",
    ),
    NotKnown(
        "ApiVersions",
        ("api_keys", "api_key", "min_version", "max_version"),
        "a broker need not have idempotent producers, and the write warns that it goes without",
        f"write ApiVersions newest api_keys.{_IDENTITY_PLACE}.api_key: max, always",
        exchanges=("write",),
    ),
    NotKnown(
        "ApiVersions",
        ("api_keys", "api_key", "min_version", "max_version"),
        "brokers before 3.7 lead no groups themselves, which have no members",
        f"report ApiVersions newest api_keys.{_LED_GROUPS_PLACE}.api_key: max, always",
        exchanges=("report",),
    ),
    NotKnown(
        "Metadata",
        ("topics",),
        "brokers leave out topics that their user may not see",
        "read a pattern Metadata newest topics: empty, always",
        kinds=("empty", "without first", "without last"),
        exchanges=("read a pattern", "report"),
    ),
    NotKnown(
        "Metadata",
        ("partitions",),
        "how many partitions a topic has, only its cluster knows",
        "read Metadata newest topics.0.partitions: without last, always",
        kinds=("without last",),
    ),
    NotKnown(
        "Metadata",
        ("is_internal",),
        "which topics are the cluster's own, only the cluster knows",
        "read a pattern Metadata newest topics.0.is_internal: the contrary, always",
        exchanges=("read a pattern", "report"),
    ),
    NotKnown(
        "Metadata",
        ("node_id", "leader_id", "brokers"),
        "a partition may be without leader, and a report says so",
        "report Metadata newest topics.0.partitions.0.leader_id: -1, always",
        exchanges=("report",),
    ),
    NotKnown(
        "ListOffsets",
        ("offset",),
        "where a log starts and ends, and which offset belongs to a time, only its leader knows",
        "read ListOffsets newest topics.0.partitions.0.offset: 1, always",
    ),
    NotKnown(
        "ListOffsets",
        ("timestamp",),
        _REPORTED,
        "report ListOffsets newest topics.0.partitions.0.timestamp: 0, always",
        exchanges=("report",),
    ),
    NotKnown(
        "OFFSETS",
        ("offsets",),
        "where a log starts and ends, and its segments begin, only its broker knows",
        "read 0.7 OFFSETS 0 offsets: without first, once",
    ),
    NotKnown(
        "OffsetFetch",
        ("committed_offset",),
        "what a group has committed, only its coordinator knows",
        "read from a group's offsets OffsetFetch 7 topics.0.partitions.0.committed_offset: 0, always",
    ),
    NotKnown(
        "OffsetFetch",
        ("topics", "partitions", "name", "partition_index"),
        _ITS_GROUPS,
        "report OffsetFetch newest groups.0.topics: empty, always",
        exchanges=("report",),
    ),
    NotKnown(
        "ListGroups",
        ("groups", "group_id", "protocol_type"),
        _ITS_GROUPS,
        "report ListGroups newest groups: empty, always",
        exchanges=("report",),
    ),
    NotKnown(
        "DescribeGroups",
        ("members", "member_id"),
        _ITS_GROUPS,
        "report DescribeGroups newest groups.0.members.0.member_id: another topic, always",
        exchanges=("report",),
    ),
    NotKnown(
        "ConsumerGroupDescribe",
        ("members", "member_id"),
        _ITS_GROUPS,
        "report ConsumerGroupDescribe newest groups.0.members.0.member_id: another topic, always",
        exchanges=("report",),
    ),
    NotKnown(
        "ShareGroupDescribe",
        ("members", "member_id"),
        _ITS_GROUPS,
        "share group ShareGroupDescribe newest groups.0.members.0.member_id: another topic, always",
        exchanges=("share group",),
    ),
    NotKnown(
        "ApiVersions",
        ("api_keys", "api_key", "min_version", "max_version"),
        "brokers before 4.1 do not describe share groups",
        f"share group ApiVersions newest api_keys.{_SHARE_GROUPS_PLACE}.api_key: max, always",
        exchanges=("share group",),
    ),
    NotKnown(
        "Fetch",
        ("messages",),
        "messages of the proposal have no offsets: one is as good as another of its size",
        "read the proposal Fetch 0 data.0.partition_data.0.messages: first batch twice, always",
        kinds=("first batch twice",),
        exchanges=("read the proposal",),
    ),
    NotKnown(
        "StreamsGroupDescribe",
        ("members", "member_id"),
        _ITS_GROUPS,
        "streams group StreamsGroupDescribe newest groups.0.members.0.member_id: another topic, always",
        exchanges=("streams group",),
    ),
    NotKnown(
        "ApiVersions",
        ("api_keys", "api_key", "min_version", "max_version"),
        "brokers before 4.2 do not describe streams groups",
        f"streams group ApiVersions newest api_keys.{_STREAMS_GROUPS_PLACE}.api_key: max, always",
        exchanges=("streams group",),
    ),
    NotKnown(
        "DescribeLogDirs",
        ("results", "topics", "partitions", "name", "partition_index", "is_future_key", "log_dir"),
        "which replicas a broker holds, only it knows",
        "tables DescribeLogDirs newest results.0.topics: empty, always",
    ),
    NotKnown(
        "DescribeLogDirs",
        ("partition_size", "total_bytes", "usable_bytes", "error_code"),
        _REPORTED,
        "tables DescribeLogDirs newest results.0.total_bytes: max, always",
    ),
    NotKnown(
        "DescribeProducers",
        (
            "active_producers",
            "producer_id",
            "producer_epoch",
            "last_sequence",
            "last_timestamp",
            "coordinator_epoch",
            "current_txn_start_offset",
        ),
        "which producers write to a partition, only its leader knows",
        "tables DescribeProducers 0 topics.0.partitions.0.active_producers: empty, always",
    ),
    NotKnown(
        "Fetch",
        ("records",),
        "a topic may have been compacted before, of which a warning tells, and which log whole batches are "
        "from, they do not say",
        "read Fetch newest responses.0.partitions.0.records: last batch, always",
        kinds=("last batch", "another log's"),
    ),
    NotKnown(
        "Fetch",
        ("base_offset",),
        "a batch of a topic that is compacted may be at any offset of the log",
        "read what compaction left Fetch newest responses.0.partitions.0.high_watermark and "
        "responses.0.partitions.0.records.0.base_offset: both one more, always",
        exchanges=("read what compaction left",),
    ),
    NotKnown(
        "Fetch",
        ("records",),
        "of a topic that is compacted any record may be gone",
        "read what compaction left Fetch newest responses.0.partitions.0.records: empty, always",
        kinds=("empty", "null"),
        exchanges=("read what compaction left",),
    ),
)


def _added(number: bytes, addend: int) -> bytes:
    return ((int.from_bytes(number, "big") + addend) & 0xFFFFFFFF).to_bytes(4, "big")


def kinds_of(wire_type: AnyType, name: str) -> Kinds:
    """The lies that can be told of a field, by its type and what it is."""
    match wire_type:
        case Int(signed=False):
            return {kind: _INTS[kind] for kind in ("0", "1", "another")}
        case Int():
            return _ERROR_CODES if name.endswith("error_code") else _INTS
        case String():
            return _MESSAGES if name == "error_message" else _STRINGS
        case Bytes():
            return _BYTES
        case Rest():  # as long as the frame is
            return {kind: lie for kind, lie in _BYTES.items() if kind not in _LENGTHS}
        case Uuid():
            return _UUIDS
        case Bool():
            return _BOOLS
        case Array():
            return _ARRAYS
        case RestArray():
            return {kind: lie for kind, lie in _ARRAYS.items() if kind not in _LENGTHS}
    raise AssertionError(f"no lie is known of {wire_type}: a new type needs some")


@dataclass(frozen=True, slots=True)
class Lie:
    """A replaced part of a response: its place, its kind, and the responses that have it. ``str``
    is its name."""

    exchange: Exchange
    api: Api
    version: int
    path: Path
    kind: str
    is_reported_once: bool

    def __str__(self) -> str:
        path = ".".join(map(str, self.path)) or "frame"
        mode = "once" if self.is_reported_once else "always"
        return f"{self.exchange.name} {self.api.name} {self.version} {path}: {self.kind}, {mode}"

    @property
    def names(self) -> frozenset[str]:
        """The fields that it is about."""
        return frozenset([next((step for step in reversed(self.path) if isinstance(step, str)), "")])

    @property
    def is_about_something_else(self) -> bool:
        """True if all of the response is about another topic, partition or group than the request: right as
        the rest may be, it must not be believed."""
        # Brokers may tell of more topics than they were asked for by Metadata without any.
        if self.is_reported_once or not self.path or self.api is modern.METADATA:
            return False
        is_topic = self.path[-1] == "name" and self.path[0] in ("topics", "responses") and len(self.path) == 3
        is_id = self.api is modern.FETCH and self.path[-1] == "topic_id"
        return is_topic or is_id or self.path[-1] in _KEYS

    def sent(self, honest: Honest) -> Sent | None:
        """Bytes that replace an honest response; None if it has no such part, or already has this value."""
        if not self.path:
            return _FRAMES[self.kind](self.framed(honest, honest.message).data)
        message = self.reported(honest)
        return None if message == honest.message else self.framed(honest, message)

    def reported(self, honest: Honest) -> Any:
        """The message in place of an honest one; the same where it has no such part."""
        try:
            codec = self.api.response_codec(self.version)
            [spot] = [each for each in spots(codec, honest.message) if each.path == self.path][:1]
            value = kinds_of(spot.type, spot.name)[self.kind](spot.type, spot.value)
        except (ValueError, LookupError):
            return honest.message
        return contradicted(honest.message, self.path, value)

    def framed(self, honest: Honest, message: Any) -> Sent:
        """The message as an answer to the same request, with its frame."""
        parts: list[Any] = []
        header = dialect_of(self.exchange.wire_format).headers(self.api, self.version).response
        header.write(header.message(correlation_id=honest.correlation_id, api_version=self.version), parts)
        write(self.api.response_codec(self.version), message, parts)
        return Sent(_framed(parts))


def _framed(parts: list[Any]) -> bytes:
    body = b"".join(parts)
    return len(body).to_bytes(4, "big") + body


class Liar:
    """Tells one lie, or none, and remembers what honest responses were about to be sent."""

    def __init__(self, lie: Lie | None = None) -> None:
        self.reported_count = 0
        self.seen: list[Honest] = []
        #: Requests of the API that is lied about, and what was answered.
        self.said: list[tuple[Any, Any]] = []
        self._lie = lie
        self._lock = threading.Lock()

    def __call__(self, honest: Honest) -> Sent | None:
        with self._lock:
            self.seen.append(honest)
            lie = self._lie
            if lie is None or honest.api is not lie.api or honest.version != lie.version:
                return None
            sent = None if lie.is_reported_once and self.reported_count else lie.sent(honest)
            self.reported_count += sent is not None
            self.said.append((honest.request, honest.message if sent is None else lie.reported(honest)))
            return sent


@cache
def honestly(exchange: Exchange, api: Api, version: int) -> tuple[Any, tuple[Honest, ...]]:
    """Result of an exchange with an honest broker of that version, and that API's responses in it."""
    liar = Liar()
    with exchange.serving(liar, api, version) as server:
        result = exchange.run(server, HONEST_TIMEOUT_S)
    return result, tuple(seen for seen in liar.seen if seen.api is api and seen.version == version)


@cache
def _kinds(exchange: Exchange, api: Api, version: int) -> Mapping[Path, tuple[str, ...]]:
    """Every part of the responses of one API in one version, as they come in an exchange, and how it can be
    lied about; all of a response is the empty path."""
    codec = api.response_codec(version)
    responses = honestly(exchange, api, version)[1]
    there = {spot.path: spot for honest in responses for spot in spots(codec, honest.message)}
    # Side by side brokers answer in any order, and a seed must not depend on it.
    by_name = sorted(there.items(), key=lambda item: str(item[0]))
    return {(): tuple(_FRAMES)} | {path: tuple(kinds_of(spot.type, spot.name)) for path, spot in by_name}


def lies(exchange: Exchange, api: Api, version: int) -> Iterator[Lie]:
    """All lies about the responses of one API in one version, as they come in an exchange."""
    for path, kinds in _kinds(exchange, api, version).items():
        for kind in kinds:
            for is_reported_once in (False, True):
                yield Lie(exchange, api, version, path, kind, is_reported_once)


def steps() -> Iterator[tuple[Exchange, Api, int]]:
    """Every API of every exchange, in all its versions."""
    for exchange in EXCHANGES:
        for api in exchange.apis:
            for version in exchange.versions(api):
                yield exchange, api, version


def named(name: str) -> Lie:
    """The lie of that name, in which ``newest`` may stand for the newest version of an API."""
    for exchange, api, version in steps():
        if version == api.versions.max:
            name = name.replace(
                f"{exchange.name} {api.name} newest ", f"{exchange.name} {api.name} {version} "
            )
        if name.startswith(f"{exchange.name} {api.name} {version} "):
            for lie in lies(exchange, api, version):
                if str(lie) == name:
                    return lie
    raise LookupError(name)


def outcome(lie: Lie, timeout_s: float = TIMEOUT_S) -> tuple[str, str]:
    """Result of a lie, ``EXACT``, ``REFUSED``, ``NOT_SENT`` or a description of what is wrong,
    and its details."""
    kind, details, _ = _outcome(lie, timeout_s)
    return kind, details


def _outcome(lie: Lie, timeout_s: float) -> tuple[str, str, list[tuple[Any, Any]]]:
    """The same, with the requests of the API that is lied about and what was answered."""
    expected, _ = honestly(lie.exchange, lie.api, lie.version)
    liar = Liar(lie)
    with lie.exchange.serving(liar, lie.api, lie.version) as server:
        result = _in_time(lambda: lie.exchange.run(server, timeout_s))
    return *_judged(lie, liar, result, expected), liar.said


def _judged(lie: Lie, liar: Liar, result: Any, expected: Any) -> tuple[str, str]:
    if isinstance(result, KafkaWireError):
        return _judged_error(str(result))
    if isinstance(result, BaseException):
        return f"a foreign {type(result).__name__}", str(result)
    if result == expected and liar.reported_count and lie.is_about_something_else:
        return "believed, though it is about something else", ""
    if result == expected:
        return (EXACT if liar.reported_count else NOT_SENT), ""
    return "wrong, and taken for right", f"{str(result)[:2000]} in place of {str(expected)[:2000]}"


def _judged_error(line: str) -> tuple[str, str]:
    if not line.isprintable():
        return "an error that does not print", repr(line)
    if len(line) > ERROR_SIZE_MAX:
        return f"an error of {len(line)} characters", line[:ERROR_SIZE_MAX]
    if SECRET in line:
        return "an error with a secret", line
    return REFUSED, line


def _in_time(steps: Callable[[], Any]) -> Any:
    """The result or error of steps; a ``TimeoutError`` where they hang."""
    box: list[Any] = []

    def go() -> None:
        try:
            box.append(steps())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=go, name="kafkawire-lied-to", daemon=True)
    thread.start()
    thread.join(HANG_S)
    return box[0] if box else TimeoutError(f"no end within {HANG_S:g} s")


def report(name: str) -> str:
    """Tell one lie again; what comes of it."""
    return judged(named(name))[0]


def judged(lie: Lie) -> tuple[str, str]:
    """Result of a lie, and its details. Raises ``AssertionError`` if the client takes something wrong for
    right that can be known, by other answers or by answers that contradict each other."""
    kind, details, said = _outcome(lie, TIMEOUT_S)
    if kind in (EXACT, REFUSED, NOT_SENT):
        return kind, details
    reason = why_not_known(lie)
    fault = self_contradiction(lie.api, [*said, *_not_asked(lie, said)])
    if reason and not fault:
        return NOT_KNOWN, reason
    raise AssertionError(f"{lie}: {kind}: {details}{fault and f', although it says: {fault}'}")


def _not_asked(lie: Lie, said: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Answers of a 0.7 broker to requests for the start of its logs, which all are at 0, had
    they been sent."""
    if lie.api is v07.OFFSETS:
        honest = Honest(lie.api, lie.version, v07.OffsetsResponse(0, (0,)), 0)
        response = honest.message if lie.is_reported_once else lie.reported(honest)
        for request, _ in said:
            yield replace(request, time=v07.EARLIEST_TIME, max_offsets=1), response


def why_not_known(lie: Lie) -> str | None:
    """Why no client can know the lie for one; None where it can."""
    return next((known.reason for known in NOT_TO_BE_KNOWN if known.covers(lie)), None)


def run(seed: int, seconds: float) -> collections.Counter[str]:
    """Tell lies for so long, in an order that the seed gives; how often what came of them.

    Raises ``AssertionError`` with the seed and the lie's name where something else came than what comes of
    honest answers, or an error of ours.
    """
    draw = random.Random(seed)
    stop_s = time.monotonic() + seconds
    came: collections.Counter[str] = collections.Counter()
    order = list(steps())
    draw.shuffle(order)
    for step in itertools.cycle(order):
        lie = drawn(draw, *step)
        if time.monotonic() >= stop_s:
            return came
        try:
            came[judged(lie)[0]] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return came


def drawn(draw: random.Random, exchange: Exchange, api: Api, version: int) -> Lie:
    """One of the lies about an API: each part of its responses as likely as any other."""
    kinds = _kinds(exchange, api, version)
    path = draw.choice(list(kinds))
    return Lie(exchange, api, version, path, draw.choice(kinds[path]), draw.random() < 0.5)
