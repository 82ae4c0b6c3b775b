"""Rows without a key go where Java's own producer sends them, as far as chance has it."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.source.writer import create_writer
from tests.support import librdkafka
from tests.support.producing import options_of

from .apache_kafka import ApacheKafka
from .judging import judge_of
from .versions import newest

Counts = npt.NDArray[np.int64]

PARTITIONS: Final = 3
WRITES: Final = 300
#: A sum of squares that chance passes once in a million times, for the other partitions' degrees of freedom.
CHI_SQUARE_MAX: Final = 27.6
_VALUE: Final = StructType([StructField("value", BinaryType())])


def javas(servers: str, writes: int, rows: int, size: int) -> Counts:
    """Rows that each write of Java's producer put into each partition."""
    topic = librdkafka.create_topic(servers, PARTITIONS)
    reported = judge_of("SpreadJudge.java", "4.1.1")(servers, topic, *map(str, (writes, rows, size)))
    return np.array([[int(count) for count in line.split()] for line in reported.splitlines()])


def ours(servers: str, writes: int, rows: int, size: int) -> Counts:
    """The same of our writer, one task each, its rows in batches as Spark makes them."""
    topic = librdkafka.create_topic(servers, PARTITIONS)
    found = np.zeros((writes, PARTITIONS), np.int64)
    batch = pa.RecordBatch.from_pydict({"value": pa.array([bytes(size)] * min(rows, 10_000))})
    for write in range(writes):
        writer = create_writer(options_of(servers, topic=topic), _VALUE, overwrite=False)
        message = writer.write(batch.slice(0, min(rows - at, 10_000)) for at in range(0, rows, 10_000))
        for receipt in message.receipts:
            found[write, receipt.topic_partition.partition] = receipt.message_count
    return found


@newest
def test_small_writes_are_spread_as_those_of_javas_producer(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    found = {"Java": javas(servers, WRITES, 10, 100), "ours": ours(servers, WRITES, 10, 100)}
    for who, counts in found.items():
        assert (counts.max(axis=1) == 10).all(), f"{who}: a small write stays together"
        totals = (counts > 0).sum(axis=0)
        assert ((totals - WRITES / PARTITIONS) ** 2).sum() / (WRITES / PARTITIONS) < CHI_SQUARE_MAX, who


@newest
def test_a_large_write_is_skewed_no_more_than_one_of_javas_producer(kafka: ApacheKafka) -> None:
    servers, rows = kafka.bootstrap_servers(), 40_000
    skews = {
        who: (counts.max(axis=1) / (rows / PARTITIONS) - 1).max()
        for who, counts in {"Java": javas(servers, 5, rows, 200), "ours": ours(servers, 5, rows, 200)}.items()
    }
    print(f"the fullest partition has so much more than its share: {skews}")
    # Of 8 MB the last run is a sixteenth, 3 / 16 of a share; Java draws 500 times, which chance makes uneven.
    assert skews["ours"] <= max(skews["Java"], 3 / 16)
