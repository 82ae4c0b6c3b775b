"""Assignment of the rows of a write task to partitions, for both generations.

    for partition, records in partitioner.split(rows):
        sender.add(partition, records)

The columns ``broker`` and ``partition`` of a row come first, then its key, then the sticky partitions of the
topic (``sticky_partitions``), as the strategy says. All work is done on columns: only distinct topics,
brokers and partitions become Python objects, and runs of rows.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import RowError, counted, quoted
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.rows import Records

from .rows import Rows
from .sticky_partitions import RUN_BYTES_MIN, Ids, StickyPartitions
from .strategy import STRATEGIES, Strategy
from .write_partitions import WritePartitions

#: Id in a table of partition ids for a row that names neither broker nor partition.
_UNNAMED: Final = -1
#: Partitions that an error lists, at most.
_LISTED_MAX: Final = 12
#: Function that returns the bytes which the broker of each partition accepts without a wait.
QueueCapacity = Callable[[Sequence[TopicPartition]], Sequence[int] | None]
#: Average rows, or bytes, of neighbours for the same partition from which on parts are passed on as they are.
#: Below both, gathering the rows of each partition costs less than many small parts.
_TOGETHER_ROWS_MIN: Final = 64
_TOGETHER_BYTES_MIN: Final = 128 << 10


class Partitioner:
    """Splits the batches of one task. ``draw`` chooses the order of a topic's sticky partitions,
    ``run_bytes_max`` bounds the bytes that one of them gets in a run, and ``queue_capacity`` reports how
    their brokers keep up (see ``Sender``)."""

    def __init__(
        self,
        partitions: WritePartitions,
        draw: random.Random,
        strategy: Strategy = STRATEGIES["murmur2"],
        run_bytes_max: int = RUN_BYTES_MIN,
        queue_capacity: QueueCapacity | None = None,
    ) -> None:
        self._partitions = partitions
        self._draw = draw
        self._strategy = strategy
        self._run_bytes_max = run_bytes_max
        self._queue_capacity = queue_capacity
        self._sticky: dict[str, StickyPartitions] = {}
        self._selectable: dict[str, Ids] = {}
        self._addressable: dict[str, tuple[TopicPartition, ...]] = {}
        self._fitting: dict[tuple[str, int | None, int | None], Iterator[TopicPartition]] = {}
        self._ids: dict[TopicPartition, int] = {}

    def split(self, rows: Rows) -> list[tuple[TopicPartition, Records]]:
        """Split rows into records of partitions, in one or more parts for each, in the order of the rows.

        Raises ``RowError`` for a topic name that brokers refuse, and for a broker or partition that the topic
        does not have; ``DiscoveryError`` for a topic without a live broker.
        """
        if not rows.count:
            return []
        topics, topic_codes = self._topics(rows)
        ids = self._chosen(topics, topic_codes, rows)
        if ids is None and len(topics) == 1 and not self._strategy.row_by_row:
            return self._in_runs(self._sticky_of(topics[0]), rows.records)
        if ids is None:
            ids = np.full(rows.count, _UNNAMED, np.int64)
        self._assign_sticky(topics, topic_codes, rows.records, ids)
        return self._grouped(rows.records, ids)

    def _chosen(self, topics: list[str], topic_codes: Ids, rows: Rows) -> Ids | None:
        """Choose for each row the partition that its columns or its key select, or ``_UNNAMED``; None if no
        row selects one."""
        is_named = rows.brokers is not None or rows.partitions is not None
        named = self._by_name(topics, topic_codes, rows) if is_named else None
        keyed = self._strategy.keyed(rows.keys, rows.count)
        if keyed is None:
            return named
        picked = np.where(keyed, self._by_key(topics, topic_codes, rows.keys), _UNNAMED)
        return picked if named is None else np.where(named == _UNNAMED, picked, named)

    def _topics(self, rows: Rows) -> tuple[list[str], Ids]:
        """List the distinct topics, and for each row the index of its topic."""
        codes: Ids
        if isinstance(rows.topic, str):
            topics, codes = [rows.topic], np.zeros(rows.count, np.int64)
        else:
            rows.refuse_broken_topics()
            topics, codes = _coded(rows.topic)
        for code, topic in enumerate(topics):
            if topic not in self._sticky:
                if fault := self._partitions.topic_fault(topic):
                    raise RowError(f"row {_first_row(codes, code)}: topic {quoted(topic)}: {fault}")
                selectable = self._partitions.selectable(topic)
                self._selectable[topic] = np.array([self._id(tp) for tp in selectable], np.int64)
                available = [self._id(tp) for tp in self._partitions.available(topic)]
                self._sticky[topic] = StickyPartitions(available, self._run_bytes_max, self._draw)
        return topics, codes

    def _sticky_of(self, topic: str) -> StickyPartitions:
        """Sticky partitions of a topic, updated with the present load of their brokers."""
        sticky = self._sticky[topic]
        if self._queue_capacity is not None:
            sticky.update_load(self._queue_capacity(self._partitions.available(topic)))
        return sticky

    def _in_runs(self, sticky: StickyPartitions, records: Records) -> list[tuple[TopicPartition, Records]]:
        """Split the records into runs without copying them."""
        partitions = list(self._ids)
        if sticky.fits(records.size):
            return [(partitions[sticky.whole(records.size)], records)]
        runs = sticky.runs(records.sizes())
        starts = [0, *(stop for _, stop in runs)]
        return [
            (partitions[partition], records.slice(start, stop - start))
            for start, (partition, stop) in zip(starts, runs, strict=False)
        ]

    def _assign_sticky(self, topics: list[str], topic_codes: Ids, records: Records, ids: Ids) -> None:
        """Fill gaps in ``ids`` with sticky partitions."""
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
                ids[own] = self._sticky[topic].one_by_one(len(own))
                continue
            if not len(own):
                continue
            begin = 0
            for partition, end in self._sticky_of(topic).runs(sizes[own]):
                ids[own[begin:end]] = partition
                begin = end

    def _by_key(self, topics: list[str], topic_codes: Ids, keys: pa.Array | None) -> Ids:
        assert self._strategy.hashes is not None
        if keys is None:
            keys = pa.nulls(len(topic_codes), pa.binary())
        return self._picked(topics, topic_codes, self._strategy.hashes(keys))

    def _picked(self, topics: list[str], topic_codes: Ids, numbers: Ids) -> Ids:
        """Pick for each number the partition at its remainder in the list of its topic."""
        lists = [self._selectable[topic] for topic in topics]
        counts = np.array([len(selectable) for selectable in lists], np.int64)
        starts = np.cumsum(counts) - counts
        return np.concatenate(lists)[starts[topic_codes] + numbers % counts[topic_codes]]

    def _by_name(self, topics: list[str], topic_codes: Ids, rows: Rows) -> Ids:
        """Choose for each row the partition that its columns name, or ``_UNNAMED``."""
        brokers, broker_codes = _coded(rows.brokers)
        partitions, partition_codes = _coded(rows.partitions)
        combined = (topic_codes * len(brokers) + broker_codes) * len(partitions) + partition_codes
        distinct, codes = _coded(pa.array(combined))
        table = np.empty(len(distinct), np.int64)
        for code, combination in enumerate(distinct):
            rest, partition_code = divmod(combination, len(partitions))
            topic_code, broker_code = divmod(rest, len(brokers))
            named = brokers[broker_code], partitions[partition_code]
            partition = self._named(topics[topic_code], *named)
            if partition is None and named != (None, None):
                raise self._unknown(_first_row(codes, code), topics[topic_code], *named)
            table[code] = _UNNAMED if partition is None else self._id(partition)
        return table[codes]

    def _named(self, topic: str, broker: int | None, partition: int | None) -> TopicPartition | None:
        """Partition of that broker and number; if one of them is None, another one for each batch."""
        if broker is None and partition is None:
            return None
        key = topic, broker, partition
        if key not in self._fitting:
            fitting = self._find(topic, broker, partition)
            self._fitting[key] = itertools.cycle(self._draw.sample(fitting, len(fitting)))
        return next(self._fitting[key], None)

    def _find(self, topic: str, broker: int | None, partition: int | None) -> list[TopicPartition]:
        if topic not in self._addressable:
            self._addressable[topic] = self._partitions.addressable(topic)
        return [
            tp
            for tp in self._addressable[topic]
            if broker in (None, tp.broker) and partition in (None, tp.partition)
        ]

    def _unknown(self, row: int, topic: str, broker: int | None, partition: int | None) -> RowError:
        partitions = self._addressable[topic]
        listed = ", ".join(tp.name for tp in partitions[:_LISTED_MAX]) + (
            ", …" if len(partitions) > _LISTED_MAX else ""
        )
        what = "" if partition is None else f" partition {partition}"
        what += "" if broker is None else f" on broker {broker}" if what else f" broker {broker}"
        where = "column partition" if broker is None else "columns broker and partition"
        kind = " (broker-partition)" if partitions and partitions[0].broker is not None else ""
        return RowError(
            f"row {row}: topic {quoted(topic)} has no{what}; it has {counted(len(partitions), 'partition')}, "
            f"{listed}{kind}; correct the {where} of the row, or fill in null to let the "
            "partitioner choose"
        )

    def _id(self, partition: TopicPartition) -> int:
        return self._ids.setdefault(partition, len(self._ids))

    def _grouped(self, records: Records, ids: Ids) -> list[tuple[TopicPartition, Records]]:
        partitions = list(self._ids)
        changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        count = len(changes) + 1
        if count == 1 or (
            count * _TOGETHER_ROWS_MIN <= records.count or count * _TOGETHER_BYTES_MIN <= records.nbytes
        ):
            starts, stops = [0, *changes.tolist()], [*changes.tolist(), len(ids)]
            return [
                (partitions[ids[start]], records.slice(start, stop - start))
                for start, stop in zip(starts, stops, strict=True)
            ]
        # Sorting 16-bit numbers is several times faster: numpy has a radix sort for them.
        narrow = ids.astype(np.uint16) if len(partitions) <= 1 << 16 else ids
        ordered = records.take(pa.array(np.argsort(narrow, kind="stable")))
        stops = np.cumsum(np.bincount(ids)).tolist()
        return [
            (partitions[partition_id], ordered.slice(start, stop - start))
            for partition_id, (start, stop) in enumerate(zip([0, *stops], stops, strict=False))
            if stop > start
        ]


def _coded(column: pa.Array | None) -> tuple[list[Any], Ids]:
    """List the distinct values of a column, including null, and for each row the index of its value."""
    if column is None:
        return [None], np.zeros((), np.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _first_row(codes: Ids, code: int) -> int:
    return int(np.argmax(codes == code))
