"""Which row goes to which log.

    for log, records in partitioner.split(rows):
        sender.add(log, records)

The columns ``broker`` and ``partition`` of a row come first, then its key, then the turns of the topic's
logs (``turns``), as the strategy says. All work is done on columns; only distinct topics, brokers and
partitions become Python objects, and runs of rows.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...errors import RowError, quoted
from ...model import TopicPartition
from ...records.rows import Records
from .rows import Rows
from .strategy import STRATEGIES, Strategy
from .targets import Targets
from .turns import RUN_BYTES_MIN, Ids, Turns

#: In a table of log ids: the row names neither broker nor partition.
_UNNAMED: Final = -1
#: Logs that an error lists.
_LISTED_MAX: Final = 12
#: Bytes that the broker of each log takes before it is waited for.
Rooms = Callable[[Sequence[TopicPartition]], Sequence[int] | None]
#: Rows of one log that lie together, on average, or their bytes, from which on they are handed on where they
#: are: below both, gathering what is of one log costs less than many small parts.
_TOGETHER_ROWS_MIN: Final = 64
_TOGETHER_BYTES_MIN: Final = 128 << 10


class Partitioner:
    """Splits the batches of one task. ``draw`` chooses the order in which the logs of a topic have turns,
    ``run_bytes_max`` bounds what one of them gets in one, and ``rooms`` tells how their brokers keep up, as
    ``Sender`` has it."""

    def __init__(
        self,
        targets: Targets,
        draw: random.Random,
        strategy: Strategy = STRATEGIES["murmur2"],
        run_bytes_max: int = RUN_BYTES_MIN,
        rooms: Rooms | None = None,
    ) -> None:
        self._targets = targets
        self._draw = draw
        self._strategy = strategy
        self._run_bytes_max = run_bytes_max
        self._rooms = rooms
        self._turns: dict[str, Turns] = {}
        self._choices: dict[str, Ids] = {}
        self._nameable: dict[str, tuple[TopicPartition, ...]] = {}
        self._fitting: dict[tuple[str, int | None, int | None], Iterator[TopicPartition]] = {}
        self._ids: dict[TopicPartition, int] = {}

    def split(self, rows: Rows) -> list[tuple[TopicPartition, Records]]:
        """The records of the logs, one or more parts of each, in the order of the rows.

        Raises ``RowError`` for a topic name that brokers refuse and for a broker or partition that
        its topic does not have; ``DiscoveryError`` for a topic without a live broker.
        """
        if not rows.count:
            return []
        topics, topic_codes = self._topics(rows)
        ids = self._chosen(topics, topic_codes, rows)
        if ids is None and len(topics) == 1 and not self._strategy.row_by_row:
            return self._in_runs(self._turns_of(topics[0]), rows.records)
        if ids is None:
            ids = np.full(rows.count, _UNNAMED, np.int64)
        self._give_turns(topics, topic_codes, rows.records, ids)
        return self._grouped(rows.records, ids)

    def _chosen(self, topics: list[str], topic_codes: Ids, rows: Rows) -> Ids | None:
        """For each row the log that columns name or its key picks, or ``_UNNAMED``; None where none does."""
        is_named = rows.brokers is not None or rows.partitions is not None
        named = self._by_name(topics, topic_codes, rows) if is_named else None
        keyed = self._strategy.keyed(rows.keys, rows.count)
        if keyed is None:
            return named
        picked = np.where(keyed, self._by_key(topics, topic_codes, rows.keys), _UNNAMED)
        return picked if named is None else np.where(named == _UNNAMED, picked, named)

    def _topics(self, rows: Rows) -> tuple[list[str], Ids]:
        """The distinct topics, and for each row the index of its own."""
        codes: Ids
        if isinstance(rows.topic, str):
            topics, codes = [rows.topic], np.zeros(rows.count, np.int64)
        else:
            rows.refuse_broken_topics()
            topics, codes = _coded(rows.topic)
        for code, topic in enumerate(topics):
            if topic not in self._turns:
                if fault := self._targets.topic_fault(topic):
                    raise RowError(f"row {_first_row(codes, code)}: topic {quoted(topic)}: {fault}")
                choices = self._targets.choices(topic)
                self._choices[topic] = np.array([self._id(log) for log in choices], np.int64)
                led = [self._id(log) for log in self._targets.led(topic)]
                self._turns[topic] = Turns(led, self._run_bytes_max, self._draw)
        return topics, codes

    def _turns_of(self, topic: str) -> Turns:
        """The turns of a topic's logs as their brokers keep up now."""
        turns = self._turns[topic]
        if self._rooms is not None:
            turns.adapt(self._rooms(self._targets.led(topic)))
        return turns

    def _in_runs(self, turns: Turns, records: Records) -> list[tuple[TopicPartition, Records]]:
        """The records in runs, where they lie."""
        logs = list(self._ids)
        if turns.fits(records.size):
            return [(logs[turns.whole(records.size)], records)]
        runs = turns.runs(records.sizes())
        starts = [0, *(stop for _, stop in runs)]
        return [
            (logs[log], records.slice(start, stop - start))
            for start, (log, stop) in zip(starts, runs, strict=False)
        ]

    def _give_turns(self, topics: list[str], topic_codes: Ids, records: Records, ids: Ids) -> None:
        """Put the log whose turn it is where ``ids`` have none."""
        rows = np.flatnonzero(ids == _UNNAMED)
        if not len(rows):
            return
        sizes = None if self._strategy.row_by_row else records.sizes()
        codes = topic_codes[rows]
        if len(topics) > 1:
            order = np.argsort(codes, kind="stable")
            rows, codes = rows[order], codes[order]
        stops = np.searchsorted(codes, np.arange(len(topics)), side="right").tolist()
        for topic, start, stop in zip(topics, [0, *stops], stops, strict=False):
            own = rows[start:stop]
            if sizes is None:
                ids[own] = self._turns[topic].one_by_one(len(own))
                continue
            if not len(own):
                continue
            begin = 0
            for log, end in self._turns_of(topic).runs(sizes[own]):
                ids[own[begin:end]] = log
                begin = end

    def _by_key(self, topics: list[str], topic_codes: Ids, keys: pa.Array | None) -> Ids:
        assert self._strategy.hashes is not None
        if keys is None:
            keys = pa.nulls(len(topic_codes), pa.binary())
        return self._picked(topics, topic_codes, self._strategy.hashes(keys))

    def _picked(self, topics: list[str], topic_codes: Ids, numbers: Ids) -> Ids:
        """For each number the log at its remainder in the list of its topic."""
        lists = [self._choices[topic] for topic in topics]
        counts = np.array([len(choices) for choices in lists], np.int64)
        starts = np.cumsum(counts) - counts
        return np.concatenate(lists)[starts[topic_codes] + numbers % counts[topic_codes]]

    def _by_name(self, topics: list[str], topic_codes: Ids, rows: Rows) -> Ids:
        """For each row the log that its columns name, or ``_UNNAMED``."""
        brokers, broker_codes = _coded(rows.brokers)
        partitions, partition_codes = _coded(rows.partitions)
        combined = (topic_codes * len(brokers) + broker_codes) * len(partitions) + partition_codes
        distinct, codes = _coded(pa.array(combined))
        table = np.empty(len(distinct), np.int64)
        for code, combination in enumerate(distinct):
            rest, partition_code = divmod(combination, len(partitions))
            topic_code, broker_code = divmod(rest, len(brokers))
            named = brokers[broker_code], partitions[partition_code]
            log = self._named(topics[topic_code], *named)
            if log is None and named != (None, None):
                raise self._unknown(_first_row(codes, code), topics[topic_code], *named)
            table[code] = _UNNAMED if log is None else self._id(log)
        return table[codes]

    def _named(self, topic: str, broker: int | None, partition: int | None) -> TopicPartition | None:
        """The log of that broker and partition, another one for each batch where one of them is None."""
        if broker is None and partition is None:
            return None
        key = topic, broker, partition
        if key not in self._fitting:
            fitting = self._find(topic, broker, partition)
            self._fitting[key] = itertools.cycle(self._draw.sample(fitting, len(fitting)))
        return next(self._fitting[key], None)

    def _find(self, topic: str, broker: int | None, partition: int | None) -> list[TopicPartition]:
        if topic not in self._nameable:
            self._nameable[topic] = self._targets.nameable(topic)
        return [
            log
            for log in self._nameable[topic]
            if broker in (None, log.broker) and partition in (None, log.partition)
        ]

    def _unknown(self, row: int, topic: str, broker: int | None, partition: int | None) -> RowError:
        logs = self._nameable[topic]
        listed = ", ".join(log.name for log in logs[:_LISTED_MAX]) + (
            ", …" if len(logs) > _LISTED_MAX else ""
        )
        what = "" if partition is None else f" partition {partition}"
        what += "" if broker is None else f" on broker {broker}" if what else f" broker {broker}"
        kind = " (broker-partition)" if logs and logs[0].broker is not None else ""
        return RowError(
            f"row {row}: topic {quoted(topic)} has no{what}; it has {listed}{kind}; correct or "
            "drop the columns that say so"
        )

    def _id(self, log: TopicPartition) -> int:
        return self._ids.setdefault(log, len(self._ids))

    def _grouped(self, records: Records, ids: Ids) -> list[tuple[TopicPartition, Records]]:
        logs = list(self._ids)
        changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        count = len(changes) + 1
        if count == 1 or (
            count * _TOGETHER_ROWS_MIN <= records.count or count * _TOGETHER_BYTES_MIN <= records.nbytes
        ):
            starts, stops = [0, *changes.tolist()], [*changes.tolist(), len(ids)]
            return [
                (logs[ids[start]], records.slice(start, stop - start))
                for start, stop in zip(starts, stops, strict=True)
            ]
        # Sorting 16-bit numbers is several times faster: numpy has a radix sort for them.
        narrow = ids.astype(np.uint16) if len(logs) <= 1 << 16 else ids
        ordered = records.take(pa.array(np.argsort(narrow, kind="stable")))
        stops = np.cumsum(np.bincount(ids)).tolist()
        return [
            (logs[log_id], ordered.slice(start, stop - start))
            for log_id, (start, stop) in enumerate(zip([0, *stops], stops, strict=False))
            if stop > start
        ]


def _coded(column: pa.Array | None) -> tuple[list[Any], Ids]:
    """The distinct values of a column, null among them, and for each row the index of its own."""
    if column is None:
        return [None], np.zeros((), np.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _first_row(codes: Ids, code: int) -> int:
    return int(np.argmax(codes == code))
