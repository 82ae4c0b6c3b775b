"""Partitioning strategies for rows that name no partition, by the values of the option ``partitioner``.

``murmur2`` is what the Java producer does, ``consistent`` and ``consistent_random`` are
librdkafka's, ``roundrobin`` is Java's RoundRobinPartitioner. All work on a column of keys.
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

from ...records import compiler
from ...records.checksum import crc32_each
from ...records.murmur2 import positive_hashes

Hashes = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy, as data.

    ``hashes`` gives each key of a binary column a number that is not negative; its remainder by
    the number of a topic's logs picks from their list. A row that has no key by ``null_is_key``
    and ``empty_is_key`` goes to the log whose turn it is: runs of rows each, or, ``row_by_row``, each row to
    another one.
    """

    hashes: Callable[[pa.Array], Hashes] | None
    null_is_key: bool = False
    empty_is_key: bool = True
    row_by_row: bool = False

    def keyed(self, keys: pa.Array | None, count: int) -> Bools | None:
        """Which of ``count`` rows choose by their key; None where none does."""
        if self.hashes is None or (keys is None and not self.null_is_key):
            return None
        if keys is None or (self.null_is_key and self.empty_is_key):
            return np.ones(count, np.bool_)
        chooses = keys.is_valid() if self.empty_is_key else pc.greater(pc.binary_length(keys), 0)
        keyed: Bools = chooses.fill_null(False).to_numpy(zero_copy_only=False)
        return keyed


def crc32_hashes(keys: pa.Array) -> Hashes:
    """zlib's CRC-32 of each key of a binary column; a null key hashes as an empty one, to 0.

    Source: librdkafka's rd_kafka_msg_partitioner_consistent, which takes the unsigned remainder.
    """
    if not len(keys):
        return np.empty(0, np.int64)
    compiler.expect(len(keys))
    # A null may lie over bytes of any kind.
    keys = keys.fill_null(b"") if keys.null_count else keys
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    values = np.frombuffer(data or b"", np.uint8)
    return crc32_each(values, ends.astype(np.int64)).astype(np.int64)


#: By the value of the option ``partitioner``.
STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {
        "murmur2": Strategy(positive_hashes),
        "consistent": Strategy(crc32_hashes, null_is_key=True),
        "consistent_random": Strategy(crc32_hashes, empty_is_key=False),
        "roundrobin": Strategy(None, row_by_row=True),
        "sticky": Strategy(None),
    }
)
