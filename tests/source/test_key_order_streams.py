"""Streams in the order of keys from a real broker, without Spark's JVM: batches follow each other in it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from spark_kafkawire.errors import OptionError
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.growing import HASHES, KEYS, Grown, grown
from tests.support.noida import NoidaBroker
from tests.support.streaming import QUICK, Checkpoint, Killed, Query

Row = dict[str, Any]


def query(topic: Grown, checkpoint: Checkpoint, **given: str) -> Query:
    options = {"kafka.bootstrap.servers": topic.servers, "startingOffsets": "earliest", **QUICK}
    return Query(checkpoint, **{**options, **topic.options(**given)})


def in_order(batches: list[list[Row]], *, as_they_come: bool = False) -> dict[bytes, list[int]]:
    """Numbers of each key's records, batch by batch, each in the order of layout, partition and offset."""
    found: dict[bytes, list[int]] = {}
    for rows in batches:
        if not as_they_come:
            rows = sorted(rows, key=lambda row: (row["layout"], row["partition"], row["offset"]))
        for row in rows:
            found.setdefault(row["key"], []).append(int(row["value"]))
    return found


@pytest.mark.parametrize("counts", [(2, 4, 6), (1, 2, 4), (3, 4, 5)])
def test_batches_of_any_size_follow_each_other_in_the_order_of_keys(
    noida: NoidaBroker, counts: tuple[int, ...]
) -> None:
    topic = grown(noida, *counts)
    for limit in ("7", "50", "10000"):
        batches = list(query(topic, Checkpoint(), maxOffsetsPerTrigger=limit).batches())
        assert in_order(batches) == {key: list(range(6)) for key in KEYS}, limit
        assert sum(map(len, batches)) == 6 * len(KEYS)


def test_without_it_limited_batches_do_not(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4, 6)
    options = {"kafka.bootstrap.servers": topic.servers, "subscribe": topic.topic, **QUICK}
    plain = Query(Checkpoint(), startingOffsets="earliest", maxOffsetsPerTrigger="50", **options)
    assert in_order(list(plain.batches()), as_they_come=True) != {key: list(range(6)) for key in KEYS}


def test_parents_come_before_their_children_in_a_batch(noida: NoidaBroker) -> None:
    topic = grown(noida, 1, 2, 4)
    batches = list(query(topic, Checkpoint(), maxOffsetsPerTrigger="50").batches())
    assert len(batches) > 2
    assert in_order(batches, as_they_come=True) == {key: list(range(6)) for key in KEYS}


def test_a_topic_that_grows_under_a_query_ends_it_until_it_is_told_how(noida: NoidaBroker) -> None:
    topic, checkpoint = grown(noida, 2, 4), Checkpoint()
    running = query(topic, checkpoint)
    batches = list(running.batches())
    topic.write()
    known = topic.text
    topic.grow(6)
    topic.write()
    stopped = (
        rf"{re.escape(topic.topic)} has 6 partitions, but its last layout has 4: add a layout with "
        r"the current"
    )
    with pytest.raises(OptionError, match=stopped):
        running.batch()
    with pytest.raises(OptionError, match=stopped):
        query(topic, checkpoint, partitionLayouts=known).batch()
    batches += query(topic, checkpoint, maxOffsetsPerTrigger="30").batches()
    assert in_order(batches) == {key: list(range(6)) for key in KEYS}


def test_a_batch_that_is_run_again_has_the_same_layouts(noida: NoidaBroker) -> None:
    topic, checkpoint = grown(noida, 2, 4), Checkpoint()
    with pytest.raises(Killed):
        query(topic, checkpoint).batch(killed="read")
    moments = {"partitionLayouts": topic.counts_alone, "expansionTimestamp": str(1_700_000_002_000)}
    by_moments = Checkpoint(list(checkpoint.offsets))
    rows = query(topic, checkpoint).batch()
    assert rows is not None
    assert in_order([rows]) == {key: list(range(4)) for key in KEYS}
    assert query(topic, by_moments, **moments).batch() == rows


def test_a_late_record_ends_a_query_or_is_marked(noida: NoidaBroker) -> None:
    topic = Grown(noida, 4)
    topic.write()
    topic.grow(6)
    moved = [key for key in KEYS if HASHES[key] % 4 != HASHES[key] % 6]
    topic.write(moved, count=4)
    reported = (
        "; later records of their keys may have been read already: set it to true to continue and mark them"
    )
    with pytest.raises(OptionError, match=reported):
        query(topic, Checkpoint()).batch()
    rows = query(topic, Checkpoint(), verifyPartitioner="true").batch()
    assert rows is not None
    assert {row["key"] for row in rows if row["misplaced"] == "late"} == set(moved)


def test_a_query_that_starts_at_the_end_reads_what_comes(noida: NoidaBroker) -> None:
    topic, checkpoint = grown(noida, 2, 4), Checkpoint()
    running = query(topic, checkpoint, startingOffsets="latest")
    assert running.batch() == []
    place = HASHES[KEYS[0]] % 4
    librdkafka.produce(topic.servers, topic.topic, [Record(b"9", KEYS[0], partition=place)])
    rows = running.batch()
    assert rows is not None
    assert [(row["value"], row["layout"]) for row in rows] == [(b"9", 1)]
