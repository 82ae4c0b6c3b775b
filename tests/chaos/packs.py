"""Packed reads from two brokers while something happens to some partitions: exact rows or one of our errors.

    run(seed=1, seconds=60)     # as many reads as there is time for
    fault_of("1 17")            # one of them again: in one line what is wrong, None if nothing is

Each partition has events, one for each of its first Fetch requests. They are drawn before the read, so
that a seed does the same again, whatever the order of the requests.
"""

from __future__ import annotations

import collections
import itertools
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.model import Broker
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern import fetch, list_offsets, metadata
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.records.batches import batch, record
from tests.support.log_broker import LEADER_EPOCH, LogBroker
from tests.support.log_server import HOST, LogServer, Sent
from tests.support.memory_log import MemoryLog

from .operation import ERROR_SIZE_MAX, EXACT
from .reading import read

#: Name of the outcome of a read that an error ended, as it had to or might.
REFUSED: Final = "refused"
#: Name of the outcome of a read without the rows that a broker lost.
LESS: Final = "without what was lost"
_PARTITIONS: Final[Mapping[str, int]] = {"t": 6, "u": 4}
_RECORDS, _BATCH_RECORDS = 12, 4
_EVENTS_MAX: Final = 3

MOVES, MOVES_LATER, FAILS, IS_EMPTY, IS_CUT = "moves", "moves later", "fails", "is empty", "is cut"
IS_TRUNCATED, LOSES_ITS_BEGIN = "is truncated", "loses its begin"
IS_FORBIDDEN, IS_LEFT_OUT, COMES_TWICE, COMES_UNASKED = "forbidden", "left out", "twice", "unasked"
#: Events after which another request gets the same rows: the read must be exact.
PASSING: Final = frozenset((MOVES, MOVES_LATER, FAILS, IS_EMPTY, IS_CUT))
#: Events after which rows are gone: an error, unless ``failOnDataLoss`` is false.
LOSSES: Final = frozenset((IS_TRUNCATED, LOSES_ITS_BEGIN))
#: Answers that the request does not allow, and a right that is missing.
WRONG: Final = frozenset((IS_FORBIDDEN, IS_LEFT_OUT, COMES_TWICE, COMES_UNASKED))
_RETRIABLE: Final = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
_OPTIONS: Final = {
    "packSmallPartitions": "true",
    "includeHeaders": "true",
    "subscribe": ",".join(_PARTITIONS),
    "kafkaConsumer.pollTimeoutMs": "3s",
    "retryBackoff": "1ms",
    "requestTimeout": "30s",
}

Key = tuple[str, int]


@dataclass(slots=True)
class Cluster:
    """The leaders and logs of two brokers, and what is to happen to them.

    ``events`` has those of each partition that are left, and ``happened`` those that came. Offsets outside of
    ``left`` are gone.
    """

    events: dict[Key, list[str]]
    codes: dict[Key, int]
    logs: dict[Key, MemoryLog] = field(default_factory=dict)
    leaders: dict[Key, int] = field(default_factory=dict)
    moves: collections.Counter[Key] = field(default_factory=collections.Counter)
    left: dict[Key, range] = field(default_factory=dict)
    happened: set[str] = field(default_factory=set)
    brokers: list[Broker] = field(default_factory=list)

    @classmethod
    def drawn(cls, draw: random.Random) -> Cluster:
        """Partitions with leaders and events: those that pass, and maybe losses or wrong answers."""
        keys = [(topic, partition) for topic, count in _PARTITIONS.items() for partition in range(count)]
        kinds = sorted(PASSING | draw.choice((frozenset(), frozenset(), frozenset(), WRONG, WRONG, LOSSES)))
        events = {key: draw.choices(kinds, k=draw.choice((0, 0, 1, _EVENTS_MAX))) for key in keys}
        found = cls(events, {key: int(draw.choice(_RETRIABLE)) for key in keys})
        for key in keys:
            found.logs[key] = _log(key)
            found.leaders[key] = draw.randrange(2)
            found.left[key] = range(_RECORDS)
        return found

    def happens(self, key: Key) -> str | None:
        """The event of this request for a partition."""
        events = self.events[key]
        if not events:
            return None
        self.happened.add(events[0])
        return events.pop(0)

    def move(self, key: Key) -> None:
        """Make the other broker the leader, in the next epoch."""
        self.leaders[key] = 1 - self.leaders[key]
        self.moves[key] += 1

    def lose(self, key: Key, left: range) -> None:
        """Delete all records outside of ``left``."""
        self.left[key] = range(max(left.start, self.left[key].start), min(left.stop, self.left[key].stop))
        self.logs[key] = _log(key, self.left[key].stop)


def _value(key: Key, offset: int) -> bytes:
    return f"{key[0]} {key[1]} {offset}".encode() * (1 + key[1])


def _log(key: Key, stop: int = _RECORDS) -> MemoryLog:
    firsts = range(0, stop, _BATCH_RECORDS)
    return MemoryLog(
        *(batch([record(d, _value(key, first + d)) for d in range(_BATCH_RECORDS)]) for first in firsts)
    )


class ShiftingBroker(LogBroker):
    """One of the brokers of a cluster, which answers for what it leads."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster, self._number = cluster, number
        self.cuts_next = False
        super().__init__(
            cluster.brokers[number], {topic: [MemoryLog()] * n for topic, n in _PARTITIONS.items()}
        )

    def _metadata(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        nodes = tuple(
            metadata.MetadataBroker(node_id=each.id, host=each.host, port=each.port, rack=None)
            for each in self._cluster.brokers
        )
        return replace(super()._metadata(request), brokers=nodes)

    def topic(self, name: str) -> metadata.MetadataTopic:
        found = super().topic(name)
        partitions = tuple(
            replace(
                each,
                leader_id=self._cluster.leaders[name, each.partition_index],
                leader_epoch=LEADER_EPOCH + self._cluster.moves[name, each.partition_index],
                replica_nodes=(0, 1),
                isr_nodes=(0, 1),
            )
            for each in found.partitions
        )
        return replace(found, partitions=partitions)

    def _listed(
        self, topic: str, asked: list_offsets.ListOffsetsPartition
    ) -> list_offsets.ListOffsetsPartitionResponse:
        key = topic, asked.partition_index
        found, left = super()._listed(topic, asked), self._cluster.left[key]
        if self._cluster.leaders[key] != self._number:
            return replace(found, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), offset=-1)
        offset = left.stop if asked.timestamp == list_offsets.LATEST_TIMESTAMP else left.start
        return replace(found, offset=offset, old_style_offsets=(offset,))

    def _fetch(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        response, topics = super()._fetch(request), []
        for topic in response.responses:
            parts: list[fetch.FetchPartitionResponse] = []
            for part in topic.partitions:
                key = topic.topic, part.partition_index
                event = self._cluster.happens(key)
                answered = self._answered(event, key, part, request)
                parts += {IS_LEFT_OUT: [], COMES_TWICE: [answered, answered]}.get(event or "", [answered])
                if event == COMES_UNASKED:
                    parts.append(replace(answered, partition_index=len(self.logs[topic.topic]) + 1))
                self.cuts_next |= event == IS_CUT
            topics.append(replace(topic, partitions=tuple(parts)))
        return replace(response, responses=tuple(topics))

    def _answered(
        self, event: str | None, key: Key, part: fetch.FetchPartitionResponse, request: fetch.FetchRequest
    ) -> fetch.FetchPartitionResponse:
        """The answer for a partition, once the event has happened."""
        cluster, nothing = self._cluster, replace(part, records=b"", error_code=0)
        if event == IS_FORBIDDEN:
            cluster.events.update({each: [IS_FORBIDDEN] * 99 for each in cluster.events if each[0] == key[0]})
            return replace(nothing, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        if event == IS_TRUNCATED:
            cluster.lose(key, range(_RECORDS - _BATCH_RECORDS))
        if event == LOSES_ITS_BEGIN:
            cluster.lose(key, range(_BATCH_RECORDS, _RECORDS))
        if event == MOVES:
            cluster.move(key)
        if cluster.leaders[key] != self._number:
            return replace(nothing, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if event == MOVES_LATER:
            cluster.move(key)
        left = cluster.left[key]
        found = replace(
            nothing, high_watermark=left.stop, last_stable_offset=left.stop, log_start_offset=left.start
        )
        if event in (FAILS, IS_EMPTY):
            return replace(found, error_code=cluster.codes[key] if event == FAILS else 0)
        [asked] = [
            each
            for topic in request.topics
            for each in topic.partitions
            if ((topic.topic or self._name(topic)), each.partition) == key
        ]
        if not left.start <= asked.fetch_offset <= left.stop:
            return replace(found, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
        return replace(found, records=cluster.logs[key].read(asked.fetch_offset, asked.partition_max_bytes))

    def sent(self, api: Api, frame: bytes) -> Sent:
        """A response, or its first half at the end of the connection."""
        if api is modern.FETCH and self.cuts_next:
            self.cuts_next = False
            return Sent(frame[: len(frame) // 2], "close")
        return Sent(frame)


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a read: the outcome's name, and what is wrong with it."""

    name: str
    fault: str | None = None


def ended(seed: str) -> Ended:
    """Read once, while the events of the seed happen."""
    draw = random.Random(f"packs {seed}")
    cluster = Cluster.drawn(draw)
    fails_on_loss = draw.random() < 0.5
    options = {
        **_OPTIONS,
        "fetchBytes": draw.choice(("1KiB", "8MiB")),
        "failOnDataLoss": str(fails_on_loss).lower(),
    }
    POOL.close_idle()
    with ExitStack() as stack:
        servers = [LogServer({}) for _ in range(2)]
        cluster.brokers += [Broker(number, HOST, each.port) for number, each in enumerate(servers)]
        for number, server in enumerate(servers):
            broker = ShiftingBroker(cluster, number)
            server.broker, server.lie = broker, broker.sent
            stack.enter_context(server)
        try:
            rows: Any = read({**options, "kafka.bootstrap.servers": servers[0].bootstrap_servers})
        except KafkaWireError as error:
            return Ended(REFUSED, _wrong_error(str(error), cluster.happened, fails_on_loss))
    return _judged(
        [(row.topic, row.partition, row.offset, row.value) for row in rows], cluster, fails_on_loss
    )


def _wrong_error(line: str, happened: set[str], fails_on_loss: bool) -> str | None:
    if not line.isprintable() or len(line) > ERROR_SIZE_MAX:
        return f"an error is not one short line: {line!r}"
    if happened & WRONG or (happened & LOSSES and fails_on_loss):
        return None
    return f"an error, though another request had got the rows ({', '.join(sorted(happened))}): {line}"


def _judged(rows: Sequence[tuple[Any, ...]], cluster: Cluster, fails_on_loss: bool) -> Ended:
    """Rows of each partition come in order; those of two partitions may be mixed."""
    missing: list[tuple[Key, int]] = []
    for key, left in cluster.left.items():
        found = [(offset, value) for topic, partition, offset, value in rows if (topic, partition) == key]
        expected = [(offset, _value(key, offset)) for offset in range(_RECORDS)]
        gone = [row for row in expected if row not in found]
        if found != [row for row in expected if row not in gone]:
            return Ended(EXACT, f"{key} gives {found[:20]}, which it never held, or not in this order")
        if any(offset in left for offset, _ in gone):
            return Ended(EXACT, f"{key} lacks {[offset for offset, _ in gone]}, and holds {left}")
        missing += [(key, offset) for offset, _ in gone]
    if missing and fails_on_loss:
        return Ended(LESS, f"success without {missing[:5]}, with failOnDataLoss=true")
    extra = len(rows) + len(missing) - _RECORDS * len(cluster.left)
    return Ended(LESS if missing else EXACT, f"{extra} rows too many" if extra else None)


def fault_of(seed: str) -> str | None:
    """Fault of a read; None if it has none."""
    return ended(seed).fault


def run(seed: int, seconds: float) -> collections.Counter[str]:
    """Read for so long. Returns how often each outcome came.

    Raises ``AssertionError`` with the seed of the read if an outcome is wrong."""
    stop_s = time.monotonic() + seconds
    came: collections.Counter[str] = collections.Counter()
    for number in itertools.count():
        if time.monotonic() >= stop_s:
            break
        found = ended(f"{seed} {number}")
        if found.fault is not None:
            raise AssertionError(f'packs.fault_of("{seed} {number}"): {found.fault}')
        came[found.name] += 1
    return came
