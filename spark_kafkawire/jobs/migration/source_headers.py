"""Headers with the place of a copied message in the source. Pure.

==================  =========================================
header              value, decimal except the topic's name
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

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.headers import HEADERS

TOPIC: Final = "source.topic"
BROKER: Final = "source.broker"
PARTITION: Final = "source.partition"
OFFSET: Final = "source.offset"
INDEX: Final = "source.index"


def headers_of(topic_partition: TopicPartition, columns: Columns) -> pa.ListArray:
    """The headers of each message, as the column ``headers`` of a write."""
    count = columns.count
    fields = {
        TOPIC: pa.repeat(pa.scalar(topic_partition.topic.encode()), count),
        BROKER: pa.repeat(pa.scalar(b"%d" % (topic_partition.broker or 0)), count),
        PARTITION: pa.repeat(pa.scalar(b"%d" % topic_partition.partition), count),
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


def are_from(topic_partition: TopicPartition, headers: pa.ListArray | None, count: int) -> pa.BooleanArray:
    """A mask of the ``count`` messages that came from this partition, by their headers."""
    mask = np.zeros(count, np.bool_)
    if headers is None or not count:
        return pa.array(mask)
    pairs, rows = pc.list_flatten(headers), pc.list_parent_indices(headers)
    keys, values = pairs.field("key"), pairs.field("value")
    located = [
        (TOPIC, topic_partition.topic.encode()),
        (BROKER, b"%d" % (topic_partition.broker or 0)),
        (PARTITION, b"%d" % topic_partition.partition),
    ]
    mask[:] = True
    for key, value in located:
        is_located = pc.fill_null(pc.and_(pc.equal(keys, key), pc.equal(values, pa.scalar(value))), False)
        is_stated = np.zeros(count, np.bool_)
        is_stated[rows.filter(is_located).to_numpy(zero_copy_only=False)] = True
        mask &= is_stated
    return pa.array(mask)


def _decimal(numbers: np.typing.NDArray[np.integer]) -> pa.BinaryArray:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())
