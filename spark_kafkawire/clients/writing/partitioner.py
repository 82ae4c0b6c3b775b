"""Assignment of the rows of a write task to partitions, for both generations.

    for partition, records in partitioner.split(rows):
        sender.add(partition, records)

The columns ``broker`` and ``partition`` of a row come first. Then the strategy of the option ``partitioner``
chooses: by a hash of the key, in turn, or a sticky partition. ``murmur2`` is the Java producer's,
``consistent`` and ``consistent_random`` are librdkafka's, ``roundrobin`` is Java's RoundRobinPartitioner. All
work is done on columns: only distinct topics, brokers and partitions become Python objects, and runs of rows.

Sticky partitions: as the Java producer does since KIP-794, a task begins with a random partition, stays with
it for a number of bytes, and continues with another one: small writes are spread, and all partitions get the
same number of bytes. Unlike the Java producer, a task then takes the partition with the fewest bytes of this
task, in an order that is drawn once: partitions that are drawn each time get more or fewer bytes by chance.

Partitions whose brokers do not keep up get fewer bytes (``update_load``). As in the Java producer, the weight
of a partition is the free capacity of its queue: bytes count twice for a partition with half the capacity of
another one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import RowError, counted, quote
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records import compiler
from spark_kafkawire.records.checksum import crc32_each
from spark_kafkawire.records.key_hashes import positive_hashes
from spark_kafkawire.records.rows import Records

from . import WritePartitions
from .rows import Rows

Hashes = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Strategy:
    """Partitioning strategy, as data.

    ``hashes`` maps each key of a binary column to a number that is not negative. Its remainder by the number
    of a topic's partitions is an index into their list. A row without a key, by ``null_is_key`` and
    ``empty_is_key``, goes to a sticky partition, or with ``row_by_row`` to the next partition for each row.
    """

    hashes: Callable[[pa.Array], Hashes] | None
    null_is_key: bool = False
    empty_is_key: bool = True
    row_by_row: bool = False

    def keyed(self, keys: pa.Array | None, count: int) -> Bools | None:
        """Mask of the rows that select a partition by key; None if no row does."""
        if self.hashes is None or (keys is None and not self.null_is_key):
            return None
        if keys is None or (self.null_is_key and self.empty_is_key):
            return np.ones(count, np.bool_)
        chooses = keys.is_valid() if self.empty_is_key else pc.greater(pc.binary_length(keys), 0)
        keyed: Bools = chooses.fill_null(False).to_numpy(zero_copy_only=False)
        return keyed


def crc32_hashes(keys: pa.Array) -> Hashes:
    """Hash each key of a binary column with zlib's CRC-32; a null key hashes like an empty one, to 0.

    Source: librdkafka's rd_kafka_msg_partitioner_consistent, which takes the unsigned remainder.
    """
    if not len(keys):
        return np.empty(0, np.int64)
    compiler.expect(len(keys))
    # The bytes under a null are arbitrary.
    keys = keys.fill_null(b"") if keys.null_count else keys
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    values = np.frombuffer(data or b"", np.uint8)
    return crc32_each(values, ends.astype(np.int64)).astype(np.int64)


#: Strategies by the value of the option ``partitioner``.
STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {
        "murmur2": Strategy(positive_hashes),
        "consistent": Strategy(crc32_hashes, null_is_key=True),
        "consistent_random": Strategy(crc32_hashes, empty_is_key=False),
        "roundrobin": Strategy(None, row_by_row=True),
        "sticky": Strategy(None),
    }
)


Ids = npt.NDArray[np.int64]

#: Bytes of the first runs, as Java's producer gives one partition (its ``batch.size``).
RUN_BYTES_MIN: Final = 16 << 10
#: Later runs have this fraction of the task's bytes so far: a task of some MB is spread as evenly as a small
#: one, and a task of some GB is not cut into small pieces.
_GROWTH: Final = 16
#: More bytes than any partition gets.
_NEVER: Final = (1 << 63) - 1


class StickyPartitions:
    """Sticky partitions of one topic in one task. ``partitions`` are their ids, one or more; rows come in
    order."""

    def __init__(self, partitions: Sequence[int], run_bytes_max: int, draw: random.Random) -> None:
        self._places = np.array(draw.sample(range(len(partitions)), len(partitions)), np.int64)
        self._order = np.array(partitions, np.int64)[self._places]
        self._given = np.zeros(len(partitions), np.int64)
        self._total = 0
        self._capacities: Ids | None = None
        self._share = 1.0
        self._run_bytes_max = run_bytes_max
        self._turn = 0
        self._run_given = 0
        self._run_bytes = RUN_BYTES_MIN

    def update_load(self, capacities: Sequence[int] | None) -> None:
        """Weight the partitions by the bytes that the broker of each of them accepts without a wait, in the
        order of ``partitions``: a partition gets bytes in proportion to its capacity. With None, and if no
        broker has capacity, all weights are equal."""
        self._capacities = (
            np.array(capacities, np.int64)[self._places]
            if capacities is not None and any(capacities)
            else None
        )
        if self._capacities is not None and not self._capacities[self._turn]:
            self._end_run()

    def whole(self, size: int) -> int | None:
        """Assign rows of ``size`` bytes in total to the present partition, and return it; None if they do not
        fit the present run."""
        if self._run_given + size > self._run_bytes:
            return None
        partition = int(self._order[self._turn])
        self._give(size)
        self._end_batch()
        return partition

    def runs(self, sizes: Ids) -> list[tuple[int, int]]:
        """Split rows into runs: for each the partition, and the row before which it ends. ``sizes`` are the
        bytes of the rows. A row that does not fit a run belongs to the next one."""
        ends = np.cumsum(sizes)
        result = []
        row = before = 0
        while row < len(sizes):
            room = self._room(int(ends[-1]) - before)
            stop = max(int(np.searchsorted(ends, before + room, side="right")), row)
            if not self._run_given:
                stop = max(stop, row + 1)  # whatever its size
            if stop > row:
                result.append((int(self._order[self._turn]), stop))
                self._give(int(ends[stop - 1]) - before)
                row, before = stop, int(ends[stop - 1])
            if row < len(sizes):
                self._end_run()
        self._end_batch()
        return result

    def one_by_one(self, count: int) -> Ids:
        """Assign each row to the next partition."""
        places = (self._turn + np.arange(count)) % len(self._order)
        self._turn = (self._turn + count) % len(self._order)
        partitions: Ids = self._order[places]
        return partitions

    def _room(self, coming: int) -> int:
        """Compute the bytes that the run takes of the ``coming`` ones: equal shares for all runs that they
        fill."""
        left = self._run_bytes - self._run_given
        return coming // -(-coming // left) if not self._run_given else max(left, 0)

    def _give(self, size: int) -> None:
        self._given[self._turn] += round(size / self._share)
        self._total += size
        self._run_given += size

    def _end_batch(self) -> None:
        """End a run that is nearly full: its rows and those of the next batch would have to be copied
        together."""
        if 2 * self._run_given >= self._run_bytes:
            self._end_run()

    def _end_run(self) -> None:
        self._turn = self._next()
        self._run_given = 0
        most = min(self._total // _GROWTH, self._run_bytes_max)
        if self._capacities is not None:
            most = min(most, int(self._capacities[self._turn]))
        self._run_bytes = max(RUN_BYTES_MIN, most)

    def _next(self) -> int:
        """Index of the partition with the fewest bytes, among those with capacity. A partition that had no
        capacity does not catch up later: its broker would be slow again."""
        capacities = self._capacities
        if capacities is None:
            self._share = 1.0
            return int(self._given.argmin())
        result = int(np.where(capacities > 0, self._given, _NEVER).argmin())
        self._given[capacities == 0] = np.maximum(self._given[capacities == 0], self._given[result])
        self._share = int(capacities[result]) / int(capacities.max())
        return result


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
        ids = self._choose(topics, topic_codes, rows)
        if ids is None and len(topics) == 1 and not self._strategy.row_by_row:
            return self._split_in_runs(self._sticky_of(topics[0]), rows.records)
        if ids is None:
            ids = np.full(rows.count, _UNNAMED, np.int64)
        self._assign_sticky(topics, topic_codes, rows.records, ids)
        return self._group_records(rows.records, ids)

    def _choose(self, topics: list[str], topic_codes: Ids, rows: Rows) -> Ids | None:
        """Choose for each row the partition that its columns or its key select, or ``_UNNAMED``; None if no
        row selects one."""
        is_named = rows.brokers is not None or rows.partitions is not None
        named = self._choose_by_name(topics, topic_codes, rows) if is_named else None
        keyed = self._strategy.keyed(rows.keys, rows.count)
        if keyed is None:
            return named
        # Each key selects the partition at the remainder of its hash in the list of its topic.
        assert self._strategy.hashes is not None
        keys = pa.nulls(rows.count, pa.binary()) if rows.keys is None else rows.keys
        lists = [self._selectable[topic] for topic in topics]
        counts = np.array([len(selectable) for selectable in lists], np.int64)
        starts = np.cumsum(counts) - counts
        places = starts[topic_codes] + self._strategy.hashes(keys) % counts[topic_codes]
        picked = np.where(keyed, np.concatenate(lists)[places], _UNNAMED)
        return picked if named is None else np.where(named == _UNNAMED, picked, named)

    def _topics(self, rows: Rows) -> tuple[list[str], Ids]:
        """List the distinct topics, and for each row the index of its topic."""
        codes: Ids
        if isinstance(rows.topic, str):
            topics, codes = [rows.topic], np.zeros(rows.count, np.int64)
        else:
            rows.refuse_broken_topics()
            topics, codes = _encode_distinct(rows.topic)
        for code, topic in enumerate(topics):
            if topic not in self._sticky:
                if fault := self._partitions.topic_fault(topic):
                    raise RowError(f"row {_first_row(codes, code)}: topic {quote(topic)}: {fault}")
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

    def _split_in_runs(
        self, sticky: StickyPartitions, records: Records
    ) -> list[tuple[TopicPartition, Records]]:
        """Split the records into runs without copying them."""
        partitions = list(self._ids)
        if (partition := sticky.whole(records.size)) is not None:
            return [(partitions[partition], records)]
        runs = sticky.runs(records.sizes())
        starts = [0, *(stop for _, stop in runs)]
        return [
            (partitions[own], records.slice(start, stop - start))
            for start, (own, stop) in zip(starts, runs, strict=False)
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
            own, begin = rows[start:stop], 0
            if sizes is None:
                ids[own] = self._sticky[topic].one_by_one(len(own))
            elif len(own):
                for partition, end in self._sticky_of(topic).runs(sizes[own]):
                    ids[own[begin:end]] = partition
                    begin = end

    def _choose_by_name(self, topics: list[str], topic_codes: Ids, rows: Rows) -> Ids:
        """Choose for each row the partition that its columns name, or ``_UNNAMED``."""
        brokers, broker_codes = _encode_distinct(rows.brokers)
        partitions, partition_codes = _encode_distinct(rows.partitions)
        combined = (topic_codes * len(brokers) + broker_codes) * len(partitions) + partition_codes
        distinct, codes = _encode_distinct(pa.array(combined))
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
        if topic not in self._addressable:
            self._addressable[topic] = self._partitions.addressable(topic)
        key = topic, broker, partition
        if key not in self._fitting:
            fitting = [
                tp
                for tp in self._addressable[topic]
                if broker in (None, tp.broker) and partition in (None, tp.partition)
            ]
            self._fitting[key] = itertools.cycle(self._draw.sample(fitting, len(fitting)))
        return next(self._fitting[key], None)

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
            f"row {row}: topic {quote(topic)} has no{what}; it has {counted(len(partitions), 'partition')}, "
            f"{listed}{kind}; correct the {where} of the row, or fill in null to let the "
            "partitioner choose"
        )

    def _id(self, partition: TopicPartition) -> int:
        return self._ids.setdefault(partition, len(self._ids))

    def _group_records(self, records: Records, ids: Ids) -> list[tuple[TopicPartition, Records]]:
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


def _encode_distinct(column: pa.Array | None) -> tuple[list[Any], Ids]:
    """List the distinct values of a column, including null, and for each row the index of its value."""
    if column is None:
        return [None], np.zeros((), np.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _first_row(codes: Ids, code: int) -> int:
    return int(np.argmax(codes == code))
