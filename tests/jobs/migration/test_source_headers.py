"""Headers with the source of a message, and the messages of other programs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.jobs.migration.source_headers import are_from, headers_of
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.headers import HEADERS

PARTITION = TopicPartition("größe", 2, 7)


def made(partition: TopicPartition = PARTITION) -> pa.ListArray:
    return headers_of(partition, Columns(np.array([0, 90, 90]), np.array([0, 0, 1], np.int32)))


def test_headers_name_the_place_in_the_source() -> None:
    column = made()
    assert column.type == HEADERS
    assert [{pair["key"]: pair["value"] for pair in row} for row in column.to_pylist()] == [
        {
            "source.topic": "größe".encode(),
            "source.broker": b"7",
            "source.partition": b"2",
            "source.offset": offset,
            "source.index": index,
        }
        for offset, index in ((b"0", b"0"), (b"90", b"0"), (b"90", b"1"))
    ]


@pytest.mark.parametrize(
    "other", [TopicPartition("other", 2, 7), TopicPartition("größe", 1, 7), TopicPartition("größe", 2, 0)]
)
def test_messages_of_other_partitions_are_not_from_this_one(other: TopicPartition) -> None:
    both = pa.concat_arrays([made(), made(other), made()])
    assert are_from(PARTITION, both, 9).to_pylist() == [True] * 3 + [False] * 3 + [True] * 3
    assert are_from(PARTITION, both.slice(2, 5), 5).to_pylist() == [True, False, False, False, True]


def test_messages_without_such_headers_are_from_nowhere() -> None:
    foreign = pa.array([None, [], [("source.topic", "größe".encode())], [("source.topic", None)]], HEADERS)
    assert are_from(PARTITION, foreign, 4).to_pylist() == [False] * 4
    assert are_from(PARTITION, None, 2).to_pylist() == [False, False]
    assert are_from(PARTITION, foreign.slice(0, 0), 0).to_pylist() == []
