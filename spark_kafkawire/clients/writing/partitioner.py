"""Which row goes to which log.

    for log, records in partitioner.split(rows):
        sender.add(log, records)

The columns ``broker`` and ``partition`` of a row come first, then its key, then the next log in turn for
the row or its batch (``strategy``). All work is done on columns; only distinct topics, brokers and
partitions become Python objects.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import RowError, quoted
from ...model import TopicPartition
from ...records.rows import Records
from .rows import Rows
from .strategy import STRATEGIES, Strategy
from .targets import Targets

Ids = npt.NDArray[np.int64]

#: In a table of log ids: the row names neither broker nor partition.
_UNNAMED: Final = -1
#: Logs that an error lists.
_LISTED_MAX: Final = 12


class Partitioner:
    """Splits the batches of one task. ``first`` is the index of the log that its first batch goes to: it
    differs from task to task, so that tasks do not all begin with the same log."""

    def __init__(self, targets: Targets, first: int = 0, strategy: Strategy = STRATEGIES["murmur2"]) -> None:
        self._targets = targets
        self._first = first
        self._strategy = strategy
        self._turns: dict[str, int] = {}
        self._choices: dict[str, Ids] = {}
        self._nameable: dict[str, tuple[TopicPartition, ...]] = {}
        self._fitting: dict[tuple[str, int | None, int | None], list[TopicPartition]] = {}
        self._ids: dict[TopicPartition, int] = {}

    def split(self, rows: Rows) -> list[tuple[TopicPartition, Records]]:
        """The records of each log, in the order of the rows.

        Raises ``RowError`` for a topic name that brokers refuse and for a broker or partition that
        its topic does not have; ``DiscoveryError`` for a topic without a live broker.
        """
        if not rows.count:
            return []
        topics, topic_codes = self._topics(rows)
        ids, turns = self._round_robin(topics, topic_codes)
        keyed = self._strategy.keyed(rows.keys, rows.count)
        if keyed is not None:
            ids = np.where(keyed, self._by_key(topics, topic_codes, rows.keys), ids)
        if rows.brokers is not None or rows.partitions is not None:
            named = self._by_name(topics, topic_codes, rows)
            ids = np.where(named == _UNNAMED, ids, named)
        for topic, count in zip(topics, turns, strict=True):
            self._turns[topic] += count
        return self._grouped(rows.records, ids)

    def _topics(self, rows: Rows) -> tuple[list[str], Ids]:
        """The distinct topics, and for each row the index of its own."""
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
                self._turns[topic] = self._first
        return topics, codes

    def _round_robin(self, topics: list[str], topic_codes: Ids) -> tuple[Ids, list[int]]:
        """The next log, for each row, and by how many logs each topic has advanced."""
        turns = np.array([self._turns[topic] for topic in topics], np.int64)
        if not self._strategy.row_by_row:
            picked = self._picked(topics, np.arange(len(topics)), turns)
            return picked[topic_codes], [1] * len(topics)
        places, counts = _places_within(topic_codes, len(topics))
        return self._picked(topics, topic_codes, turns[topic_codes] + places), counts.tolist()

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
        """The log of that broker and partition, taking turns where one of them is None."""
        if broker is None and partition is None:
            return None
        key = topic, broker, partition
        if key not in self._fitting:
            self._fitting[key] = self._find(topic, broker, partition)
        fitting = self._fitting[key]
        return fitting[self._turns[topic] % len(fitting)] if fitting else None

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
        if (ids == ids[0]).all():
            return [(logs[ids[0]], records)]
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


def _places_within(codes: Ids, count: int) -> tuple[Ids, Ids]:
    """The place of each row among those of its own code, and the rows of each code."""
    counts = np.bincount(codes, minlength=count)
    ordered = np.argsort(codes, kind="stable")
    places = np.empty(len(codes), np.int64)
    places[ordered] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, counts


def _first_row(codes: Ids, code: int) -> int:
    return int(np.argmax(codes == code))
