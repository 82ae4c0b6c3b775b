"""Partitioning strategies of the option ``partitioner``, for writes of both generations.

A strategy chooses the partition of rows that name none: by a hash of the key, in turn, or as a sticky one.
``murmur2`` is the Java producer's, ``consistent`` and ``consistent_random`` are librdkafka's, ``roundrobin``
is Java's RoundRobinPartitioner. All work on a column of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.records import compiler
from spark_kafkawire.records.checksum import crc32_each
from spark_kafkawire.records.murmur2 import positive_hashes

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
