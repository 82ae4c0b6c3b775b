"""Every lie that a broker can tell in a response, made from the responses' declarations, and its effect.

A lie names the exchange, the API, its version, the part of the response, what is said in its place, and
whether that is said ``always`` or ``once``. The part is a field, the whole frame, or two numbers, so that the
response contradicts itself, or agrees in what is wrong. Whatever comes of it is what comes of honest answers,
or one of our errors on one printable line, in time. The few lies that no client can tell from the truth
(``not_known``) are accepted only where the answers do not contradict each other (``answers``).
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.dialect import dialect_of
from spark_kafkawire.protocol.primitives import Bytes, Int
from tests.support.log_server import Sent
from tests.support.memory_log import split

from .exchanges import EXCHANGES, Exchange
from .lying_broker import Honest
from .not_known import NOT_TO_BE_KNOWN, self_contradiction
from .operation import EXACT, attempt
from .shapes import (
    FRAMES,
    FRAMES_AT,
    PAIRS,
    Path,
    bounded,
    contradicted,
    framed,
    kinds_of,
    lie_of_frame,
    spots,
    write,
)

#: The deadline of each request while the broker lies, and while it does not.
TIMEOUT_S: Final = 0.2
HONEST_TIMEOUT_S: Final = 60.0
#: An exchange that takes longer hangs: many times what all its deadlines add up to, for busy machines.
SLOW_S: Final = 60.0
#: What an exchange came to, besides ``EXACT``.
REFUSED, NOT_KNOWN, NOT_SENT = "error", "not to be known", "not sent"
WRONG: Final = "wrong, and taken for right"

#: The APIs two of whose numbers are changed at once: those that tell where logs start and end and where
#: records lie. What is fetched in 0.7 and in the format of the proposal holds none.
APIS_OF_PAIRS: Final = (modern.FETCH, modern.LIST_OFFSETS, v07.OFFSETS)
#: Fields of a batch that no checksum covers, and where they lie.
_IN_BATCH: Final[Mapping[str, slice]] = {"base_offset": slice(0, 8), "leader_epoch": slice(12, 16)}
#: Smallest number, in bytes, that is an offset, an id or a time; smaller ones are codes and counts.
_NUMBER_BYTES_MIN: Final = 4
#: How long a client waits is another matter.
_NO_OFFSETS: Final = ("throttle_time_ms",)
#: Fields that say what a part of a response is about, whatever its API.
_KEYS: Final = ("topic", "partition_index", "index", "group_id", "key", "resource_type", "resource_name")

#: An API of an exchange, in one of its versions.
Step = tuple[Exchange, Api, int]


@dataclass(frozen=True, slots=True)
class Lie:
    """A replaced part of a response: its exchange, API and version; its paths, none for the frame; its kind,
    and the responses that have it. ``str`` is its name."""

    step: Step
    paths: tuple[Path, ...]
    kind: str
    is_reported_once: bool = False

    def __str__(self) -> str:
        paths = " and ".join(".".join(map(str, path)) for path in self.paths) or "frame"
        mode = "once" if self.is_reported_once else "always"
        return f"{self.exchange.name} {self.api.name} {self.version} {paths}: {self.kind}, {mode}"

    @property
    def exchange(self) -> Exchange:
        """The exchange that has the lie."""
        return self.step[0]

    @property
    def api(self) -> Api:
        """The API that it is about."""
        return self.step[1]

    @property
    def version(self) -> int:
        """The version of the API."""
        return self.step[2]

    @property
    def names(self) -> frozenset[str]:
        """The fields that it is about."""
        return frozenset(
            next(item for item in reversed(path) if isinstance(item, str)) for path in self.paths
        )

    @property
    def is_about_something_else(self) -> bool:
        """True if all of the response is about another topic, partition or group than the request, or answers
        another request: right as the rest may be, it must not be believed."""
        if not self.paths and not self.is_reported_once and dialect_of(self.exchange.wire_format).correlates:
            return self.kind.startswith("response to ")
        # Brokers may tell of more topics than they were asked for by Metadata without any. Of two numbers one
        # may be a key: the response may be right besides.
        if self.is_reported_once or len(self.paths) != 1 or self.api is modern.METADATA:
            return False
        [path] = self.paths
        is_topic = path[-1] == "name" and path[0] in ("topics", "responses") and len(path) == 3
        return is_topic or (self.api is modern.FETCH and path[-1] == "topic_id") or path[-1] in _KEYS

    def sent(self, honest: Honest) -> Sent | None:
        """Bytes that replace an honest response; None if it has no such part, or already has this value."""
        message = self.reported(honest)
        if self.paths:
            return None if message == honest.message else Sent(self.frame(honest, message))
        return lie_of_frame(self.kind, self.frame(honest, message))

    def reported(self, honest: Honest) -> Any:
        """The message in place of an honest one; the same where it has no such part."""
        codec, message = self.api.response_codec(self.version), honest.message
        if len(self.paths) == 1:
            there = {spot.path: spot for spot in spots(codec, message)}
            spot = there.get(self.paths[0])
            lie = spot and kinds_of(spot.type, spot.name).get(self.kind)
            return contradicted(message, spot.path, lie(spot.type, spot.value)) if spot and lie else message
        result = numbers(codec, message)
        if not self.paths or not result.keys() >= set(self.paths):
            return message
        first, second = (result[path][0] for path in self.paths)
        for path, value in zip(self.paths, PAIRS[self.kind](first, second), strict=True):
            message = _with_number(message, path, value, result[path][1])
        return message

    def frame(self, honest: Honest, message: Any) -> bytes:
        """The message as an answer to the same request, with its frame."""
        parts: list[Any] = []
        header = dialect_of(self.exchange.wire_format).headers(self.api, self.version).response
        header.write(header.message(correlation_id=honest.correlation_id, api_version=self.version), parts)
        write(self.api.response_codec(self.version), message, parts)
        return framed(b"".join(parts))


def numbers(codec: Any, message: Any) -> dict[Path, tuple[int, int]]:
    """Paths of the numbers of a response and of the batches in it, with their values and sizes in bytes."""
    result: dict[Path, tuple[int, int]] = {}
    for spot in spots(codec, message):
        if isinstance(spot.type, Int) and spot.type.size >= _NUMBER_BYTES_MIN:
            if spot.name not in _NO_OFFSETS:
                result[spot.path] = spot.value, spot.type.size
        elif isinstance(spot.type, Bytes) and spot.name == "records" and spot.value:
            for index, batch in enumerate(split(bytes(spot.value))):
                for name, location in _IN_BATCH.items():
                    value = int.from_bytes(batch[location], "big", signed=True)
                    here = (*spot.path, index, name)
                    result[here] = value, location.stop - location.start
    return result


def _with_number(message: Any, path: Path, value: int, size: int) -> Any:
    """The message with another number, or one as near to it as there is room for."""
    value = bounded(value, size)
    if "records" not in path:
        return contradicted(message, path, value)
    *records, index, name = path
    data = message
    for item in records:
        data = getattr(data, item) if isinstance(item, str) else data[item]
    batches = [bytearray(item) for item in split(bytes(data))]
    batches[int(index)][_IN_BATCH[str(name)]] = value.to_bytes(size, "big", signed=True)
    return contradicted(message, tuple(records), b"".join(batches))


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
def honestly(step: Step) -> tuple[Any, tuple[Honest, ...]]:
    """Result of an exchange with an honest broker of that version, and that API's responses in it."""
    exchange, api, version = step
    liar = Liar()
    with exchange.serving(liar, api, version) as server:
        result = exchange.run(server, HONEST_TIMEOUT_S)
    return result, tuple(seen for seen in liar.seen if seen.api is api and seen.version == version)


@cache
def parts(step: Step) -> Mapping[tuple[Path, ...], tuple[str, ...]]:
    """Every part of the responses of a step, and how it can be lied about."""
    codec = step[1].response_codec(step[2])
    there = {spot.path: spot for honest in honestly(step)[1] for spot in spots(codec, honest.message)}
    # Side by side brokers answer in any order, and a seed must not depend on it.
    by_name = sorted(there.items(), key=lambda item: str(item[0]))
    result: dict[tuple[Path, ...], tuple[str, ...]] = {(): (*FRAMES, *FRAMES_AT)}
    return result | {(path,): tuple(kinds_of(spot.type, spot.name)) for path, spot in by_name}


@cache
def pairs(step: Step) -> tuple[tuple[Path, ...], ...]:
    """Every two numbers of the responses of a step."""
    codec = step[1].response_codec(step[2])
    there = {path for honest in honestly(step)[1] for path in numbers(codec, honest.message)}
    return tuple(itertools.permutations(sorted(there, key=str), 2))


#: Every API of every exchange, in all its versions.
STEPS: Final = tuple(
    (exchange, api, version)
    for exchange in EXCHANGES
    for api in exchange.apis
    for version in exchange.versions(api)
)
#: Those that read, of APIs two of whose numbers are changed.
STEPS_OF_PAIRS: Final = tuple(
    step for step in STEPS if step[1] in APIS_OF_PAIRS and step[0].name.startswith("read")
)


def named(name: str) -> Lie:
    """The lie of that name, in which ``newest`` may stand for the newest version of an API."""
    begin, _, how = name.partition(": ")
    kind, _, mode = how.rpartition(", ")
    for exchange, api in ((item, api) for item in EXCHANGES for api in item.apis):
        if begin.startswith(f"{exchange.name} {api.name} "):
            version, _, paths = begin.removeprefix(f"{exchange.name} {api.name} ").partition(" ")
            step = exchange, api, exchange.versions(api)[-1] if version == "newest" else int(version)
            result = [] if paths == "frame" else [_path(path) for path in paths.split(" and ")]
            return Lie(step, tuple(result), kind, mode == "once")
    raise LookupError(name)


def _path(text: str) -> Path:
    return tuple(int(item) if item.isdecimal() else item for item in text.split("."))


def judged(lie: Lie) -> tuple[str, str]:
    """Result of a lie, and its details. Raises ``AssertionError`` if the client takes something wrong for
    right that can be known, by other answers or by answers that contradict each other."""
    try:
        kind, details, said = outcome(lie, TIMEOUT_S)
    except Exception as error:
        raise AssertionError(f"{lie}: {error!r}") from error
    if kind in (EXACT, REFUSED, NOT_SENT):
        return kind, details
    reason = why_not_known(lie)
    # Other lies may replace the list that the rules look for.
    fault = self_contradiction(lie.api, [*said, *_not_asked(lie, said)]) if reason else ""
    if reason and not fault:
        return NOT_KNOWN, reason
    raise AssertionError(f"{lie}: {kind}: {details}{fault and f', although it says: {fault}'}")


def outcome(lie: Lie, timeout_s: float) -> tuple[str, str, list[tuple[Any, Any]]]:
    """Result of a lie, ``EXACT``, ``REFUSED``, ``NOT_SENT`` or what is wrong, and its details; the requests
    of the API that is lied about and what was answered."""
    expected, _ = honestly(lie.step)
    liar, began_s = Liar(lie), time.monotonic()
    with lie.exchange.serving(liar, lie.api, lie.version) as server:
        result = attempt(lambda: lie.exchange.run(server, timeout_s), wrong=())
    elapsed_s = time.monotonic() - began_s
    assert elapsed_s < SLOW_S, f"it takes {elapsed_s:.0f} s"
    if isinstance(result, KafkaWireError):
        return REFUSED, str(result), liar.said
    if result != expected:
        return WRONG, f"{str(result)[:2000]} in place of {str(expected)[:2000]}", liar.said
    if liar.reported_count and lie.is_about_something_else:
        return "believed, though it is about something else", "", liar.said
    return (EXACT if liar.reported_count else NOT_SENT), "", liar.said


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
    if lie.kind.startswith("changed "):
        return "bytes that no checksum covers may be any"
    return next((known.reason for known in NOT_TO_BE_KNOWN if known.covers(lie)), None)


def lie(seed: int, number: int) -> Counter[str]:
    """Tell a lie, each part of a response as likely as any other. Raises ``AssertionError`` that names it."""
    order = random.Random(seed).sample(STEPS, len(STEPS))
    draw, step = random.Random(f"{seed} lies {number}"), order[number % len(order)]
    paths, kinds = draw.choice([*parts(step).items()])
    kind = draw.choice(kinds)
    kind += f" {draw.randrange(1 << 16)}" if kind in FRAMES_AT and not paths else ""
    return Counter((judged(Lie(step, paths, kind, draw.random() < 0.5))[0],))


def contradiction(seed: int, number: int) -> Counter[str]:
    """Change two numbers of a response, as often of each API. Raises ``AssertionError`` that names them."""
    draw, api = random.Random(f"{seed} contradictions {number}"), APIS_OF_PAIRS[number % len(APIS_OF_PAIRS)]
    step = draw.choice([step for step in STEPS_OF_PAIRS if step[1] is api])
    kind = draw.choice([*PAIRS])
    return Counter((judged(Lie(step, draw.choice(pairs(step)), kind, draw.random() < 0.5))[0],))
