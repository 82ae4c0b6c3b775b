"""Headers that tell where a copied message came from. Pure.

==================  =========================================
header              value, decimal but for the topic's name
==================  =========================================
source.topic        the topic in the source
source.broker       the broker's id
source.partition    the partition's number on that broker
source.offset       byte offset of the outermost message
source.index        place inside a compressed message, else 0
==================  =========================================
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...model import TopicPartition
from ...records.columns import Columns
from ...records.headers import HEADERS

TOPIC: Final = "source.topic"
BROKER: Final = "source.broker"
PARTITION: Final = "source.partition"
OFFSET: Final = "source.offset"
INDEX: Final = "source.index"


def headers_of(log: TopicPartition, columns: Columns) -> pa.ListArray:
    """The headers of each message, as the column ``headers`` of a write."""
    count = columns.count
    fields = {
        TOPIC: pa.repeat(pa.scalar(log.topic.encode()), count),
        BROKER: pa.repeat(pa.scalar(b"%d" % (log.broker or 0)), count),
        PARTITION: pa.repeat(pa.scalar(b"%d" % log.partition), count),
        OFFSET: _decimal(columns.offset),
        INDEX: _decimal(columns.index if columns.index is not None else np.zeros(count, np.int32)),
    }
    size = len(fields)
    # Field by field becomes message by message.
    order = pa.array(np.arange(size * count).reshape(size, count).T.ravel())
    values = pa.concat_arrays(list(fields.values())).take(order)
    keys = pa.array(list(fields)).take(pa.array(np.tile(np.arange(size), count)))
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS)


def are_from(log: TopicPartition, headers: pa.ListArray | None, count: int) -> pa.BooleanArray:
    """Which of ``count`` messages came from this log, by their headers."""
    mask = np.zeros(count, np.bool_)
    if headers is None or not count:
        return pa.array(mask)
    pairs, rows = pc.list_flatten(headers), pc.list_parent_indices(headers)
    keys, values = pairs.field("key"), pairs.field("value")
    told = [
        (TOPIC, log.topic.encode()),
        (BROKER, b"%d" % (log.broker or 0)),
        (PARTITION, b"%d" % log.partition),
    ]
    mask[:] = True
    for key, value in told:
        is_told = pc.fill_null(pc.and_(pc.equal(keys, key), pc.equal(values, pa.scalar(value))), False)
        said = np.zeros(count, np.bool_)
        said[rows.filter(is_told).to_numpy(zero_copy_only=False)] = True
        mask &= said
    return pa.array(mask)


def _decimal(numbers: np.typing.NDArray[np.integer]) -> pa.BinaryArray:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())
