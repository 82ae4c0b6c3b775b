"""Most offsets of one batch of a stream: by the options ``maxOffsetsPerTrigger`` and ``maxBytesPerTrigger``.

Offsets count records, and no request tells how large they are. So each batch looks at some records of its
partitions before it is planned, where they lie in the log, and corrects the mean size of their records:

    ranges that are left
      └─► samples at their starts ─► mean sizes ─► the part of the ranges that has ``bytes_max``
            └─► samples in its middle ─► mean sizes ─► part ─► samples at its end ─► mean sizes

A sample counts as much as all before it together, so that a mean follows sizes that change. A partition
without a sample has the mean of its topic, or of all. In 0.7 offsets are bytes, and the mean is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ..cluster import Cluster
from ..model import OffsetRange, SizeSample, TopicPartition
from ..options import StreamLimits
from .ranges import Bounds
from .stream_offsets import Offsets, next_offsets, ranges_left

#: Places of samples in the part of a range that a batch may read: 0 is its start, 1 its last record.
_PLACES: Final = (0.0, 0.5, 1.0)
#: Most partitions that a batch samples at each place.
_SAMPLES_MAX: Final = 8
#: Samples of a batch have at most this part of its bytes, or these bytes, unless one partition has more.
_SAMPLED_PART: Final = 16
_SAMPLED_BYTES: Final = 256 << 10
#: If all that is left has at most this part of the bytes of a batch, one partition is sampled.
_SMALL_PART: Final = 4
#: Bytes of a record of which nothing is known: the most that brokers take by default.
_UNKNOWN_BYTES: Final = float(1 << 20)
#: Bytes of a sample before there is one.
_SAMPLE_BYTES: Final = 16 << 10

#: Sizes of some records from an offset of each partition on.
Samples = Mapping[TopicPartition, SizeSample]


class BatchLimit:
    """The most that a batch reads. ``ask`` asks the cluster, as ``StreamPartitions.ask`` does."""

    def __init__(self, limits: StreamLimits, ask: Callable[[Callable[[Cluster], Samples]], Samples]) -> None:
        self._limits, self._ask = limits, ask
        self._sizes = None if limits.bytes_max is None else RecordSizes(limits.bytes_max, self._sample)

    def ends(self, start: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """End offsets of the next batch, by the limits of the options. Raises the errors of the cluster."""
        size_max = self._limits.size_max
        if self._sizes is not None and (left := ranges_left(start, bounds)):
            by_bytes = self._sizes.count_max(left)
            size_max = min((item for item in (size_max, by_bytes) if item is not None), default=None)
        return next_offsets(start, bounds, size_max)

    def _sample(self, offsets: Offsets) -> Samples:
        return self._ask(lambda cluster: cluster.sample_sizes(offsets))


class RecordSizes:
    """Mean sizes of the records of one query, by samples from an offset of each partition on."""

    def __init__(self, bytes_max: int, sample: Callable[[Offsets], Samples]) -> None:
        self._bytes_max, self._sample = bytes_max, sample
        self._means: dict[TopicPartition, float] = {}
        self._samples: dict[TopicPartition, int] = {}
        self._sample_bytes = _SAMPLE_BYTES

    def count_max(self, ranges: Sequence[OffsetRange]) -> int | None:
        """The number of offsets of the ranges, in proportion to their sizes, that have about ``bytes_max``
        bytes, at least 1; None for all. Raises as ``sample`` does."""
        is_small = bool(self._means) and self._bytes(ranges) * _SMALL_PART <= self._bytes_max
        sampled_max = max(self._bytes_max // _SAMPLED_PART, _SAMPLED_BYTES)
        affordable = sampled_max // (len(_PLACES) * self._sample_bytes)
        count = 1 if is_small else max(1, min(affordable, _SAMPLES_MAX))
        # Those with the fewest samples first, then the largest.
        turns = sorted(ranges, key=lambda item: (self._samples.get(item.topic_partition, 0), -item.size))
        chosen = turns[:count]
        for location in _PLACES:
            part = min(self._bytes_max / self._bytes(ranges), 1.0)
            self._look({item.topic_partition: _offset(item, part * location) for item in chosen})
        total, size = sum(item.size for item in ranges), self._bytes(ranges)
        return None if size <= self._bytes_max else max(int(total * self._bytes_max / size), 1)

    def _look(self, offsets: Mapping[TopicPartition, int]) -> None:
        for tp in offsets:
            self._samples[tp] = self._samples.get(tp, 0) + 1
        result = self._sample(offsets)
        for tp, item in result.items():
            mean = item.size / item.count
            self._means[tp] = (self._means.get(tp, mean) + mean) / 2
        self._sample_bytes = max((item.size for item in result.values()), default=self._sample_bytes)

    def _bytes(self, ranges: Sequence[OffsetRange]) -> float:
        """Estimated bytes of the ranges."""
        by_topic: dict[str, list[float]] = {}
        for tp, mean in self._means.items():
            by_topic.setdefault(tp.topic, []).append(mean)
        of_topic = {topic: _mean(means) for topic, means in by_topic.items()}
        of_all = _mean(self._means.values())
        tps = (item.topic_partition for item in ranges)
        means = (self._means.get(tp, of_topic.get(tp.topic, of_all)) for tp in tps)
        return sum(item.size * mean for item, mean in zip(ranges, means, strict=True))


def _mean(sizes: Iterable[float]) -> float:
    sizes = list(sizes)
    return sum(sizes) / len(sizes) if sizes else _UNKNOWN_BYTES


def _offset(whole: OffsetRange, part: float) -> int:
    return min(whole.start_offset + int(whole.size * part), whole.stop_offset - 1)
