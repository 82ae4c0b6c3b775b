"""Reads in the order of keys from a real broker, of a topic that grows while a test writes to it: layouts,
misplaced records, what is refused, and Spark's partitions."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from spark_kafkawire import in_key_order, misplaced_report
from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import PartitionBounds, TopicPartition
from spark_kafkawire.records.key_hashes import positive_hashes
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.key_order import Seen, seen
from tests.support.noida import NoidaBroker
from tests.support.reading import Read, read
from tests.support.sparks import MAP_IN_ARROW
from tests.support.streaming import QUICK, Checkpoint, Killed, Query
from tests.support.writing import binary

#: When the first layout's first records are from.
T0: Final = 1_700_000_000_000
KEYS: Final = [b"key %d" % number for number in range(40)]
HASHES: Final = dict(zip(KEYS, positive_hashes(binary(KEYS)).tolist(), strict=True))


class Grown:
    """A topic that grows, and what was written to it: each key's records say how many were before."""

    def __init__(self, noida: NoidaBroker, partitions: int) -> None:
        self.noida, self.servers = noida, noida.bootstrap_servers
        self.topic = noida.create_topic(partitions=partitions)
        self.layouts: list[dict[str, object]] = [{"partitions": partitions}]
        self.written = dict.fromkeys(KEYS, 0)

    @property
    def count(self) -> int:
        count = self.layouts[-1]["partitions"]
        assert isinstance(count, int)
        return count

    def grow(self, partitions: int) -> None:
        stood = {str(at): librdkafka.offsets(self.servers, self.topic, at)[1] for at in range(self.count)}
        self.noida.add_partitions(self.topic, partitions)
        self.layouts.append({"partitions": partitions, "boundaries": stood})

    def write(self, keys: Sequence[bytes] = KEYS, count: int | None = None, time_ms: int = T0) -> None:
        """A record of each key, put where one puts it who knows ``count`` partitions."""
        records = []
        for key in keys:
            location = HASHES[key] % (count or self.count)
            records.append(Record(b"%d" % self.written[key], key, (), time_ms, partition=location))
            self.written[key] += 1
        librdkafka.produce(self.servers, self.topic, records)

    def options(self, **given: str) -> dict[str, str]:
        return {"subscribe": self.topic, "keyOrder": "true", "partitionLayouts": self.text, **given}

    @property
    def text(self) -> str:
        return json.dumps({self.topic: self.layouts})

    @property
    def counts_alone(self) -> str:
        return json.dumps({self.topic: [{"partitions": item["partitions"]} for item in self.layouts]})


def grown(noida: NoidaBroker, *counts: int) -> Grown:
    """Two records of each key in each layout."""
    topic = Grown(noida, counts[0])
    for count in counts:
        if count != topic.count:
            topic.grow(count)
        for _ in range(2):
            topic.write(time_ms=T0 + 1000 * len(topic.layouts))
    return topic


def numbers(rows: list[dict[str, Any]], *order: str) -> dict[bytes, list[int]]:
    """Numbers of each key's records, in the order of these columns, or in that of the rows."""
    result: dict[bytes, list[int]] = {}
    for row in sorted(rows, key=lambda row: [row[name] for name in order]):
        result.setdefault(row["key"], []).append(int(row["value"]))
    return result


def test_the_layout_is_how_often_partitions_were_added_before_the_record(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4, 6)
    rows = read(topic.servers, **topic.options())
    assert "misplaced" not in rows[0]
    assert numbers(rows, "layout", "partition", "offset") == {key: list(range(6)) for key in KEYS}
    assert {(row["layout"], int(row["value"]) // 2) for row in rows} == {(0, 0), (1, 1), (2, 2)}
    assert numbers(rows, "partition", "offset") != numbers(rows, "layout", "partition", "offset")


@pytest.mark.parametrize("check", ["strict", "true", "false"])
def test_children_are_read_after_their_parents_in_one_spark_partition(noida: NoidaBroker, check: str) -> None:
    topic = grown(noida, 1, 2, 6)
    loaded = Read(topic.servers, **topic.options(verifyPartitioner=check))
    assert [[task.range.topic_partition.partition for task in item.tasks] for item in loaded.partitions] == [
        [0, 1, 2, 3, 4, 5]
    ]
    rows = loaded.table().to_pylist()
    assert numbers(rows) == {key: list(range(6)) for key in KEYS}


def test_a_moment_means_boundaries(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4, 6)
    by_boundaries = read(topic.servers, **topic.options())
    moments = f"{T0 + 2000},{T0 + 3000}"
    given = topic.options(partitionLayouts=topic.counts_alone, expansionTimestamp=moments)
    assert read(topic.servers, **given) == by_boundaries
    # Which partitions there were then is seen by their records, and proven by the keys.
    del given["partitionLayouts"]
    assert read(topic.servers, **given) == by_boundaries


def test_counts_that_records_do_not_show_are_asked_for_or_refused_by_the_keys(noida: NoidaBroker) -> None:
    topic = Grown(noida, 4)
    moment = {"subscribe": topic.topic, "keyOrder": "true", "expansionTimestamp": str(T0 + 1)}
    for key in KEYS:
        if HASHES[key] % 4 < 3:
            topic.write([key])  # the last partition is empty as yet
    topic.grow(6)
    topic.write(time_ms=T0 + 1)
    with pytest.raises(OptionError, match="no count of partitionLayouts places their keys there by murmur2"):
        read(topic.servers, **moment)
    reported = "records from before these moments are in 0 of the 6 partitions of"
    with pytest.raises(OptionError, match=reported):
        read(topic.servers, **{**moment, "expansionTimestamp": str(T0)})
    with pytest.raises(
        OptionError, match=r"which does not show how the topic grew: set the counts with partitionLayouts$"
    ):
        read(topic.servers, **{**moment, "expansionTimestamp": str(T0 + 2)})


def test_a_late_record_has_the_layout_of_the_count_that_put_it_there(noida: NoidaBroker) -> None:
    topic = grown(noida, 4, 6)
    moved = [key for key in KEYS if HASHES[key] % 4 != HASHES[key] % 6]
    topic = Grown(noida, 4)
    topic.write()
    topic.grow(6)
    topic.write(moved, count=4)  # after the boundary
    topic.write(moved)
    rows = read(topic.servers, **topic.options(verifyPartitioner="true"))
    assert numbers(rows, "layout", "partition", "offset") == {
        key: list(range(3 if key in moved else 1)) for key in KEYS
    }
    assert {row["misplaced"] for row in rows if row["key"] in moved and row["value"] == b"1"} == {"late"}
    assert [row["misplaced"] for row in rows].count("late") == len(moved)
    # Without a look at the keys the boundaries alone say what they can.
    rows = read(topic.servers, **topic.options(verifyPartitioner="false"))
    assert {row["layout"] for row in rows if row["value"] != b"0"} == {1}


def test_late_boundary_is_an_error(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    topic.grow(6)
    topic.write()
    late = {str(at): librdkafka.offsets(topic.servers, topic.topic, at)[1] for at in range(4)}
    topic.layouts[2]["boundaries"] = late
    reported = "too late: give an earlier one; keys that came back to the partition may be out of order"
    with pytest.raises(OptionError, match=reported):
        read(topic.servers, **topic.options())
    # That is so: there are keys that were in 0, then in 2, and in 0 again before the boundary.
    rows = read(topic.servers, **topic.options(verifyPartitioner="true"))
    assert numbers(rows, "layout", "partition", "offset") != {key: list(range(5)) for key in KEYS}
    assert "early" in {row["misplaced"] for row in rows}


def test_keys_of_another_partitioner(noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic = grown(noida, 2, 4)
    astray = KEYS[0]
    location = (HASHES[astray] + 1) % 2  # no count leaves that
    librdkafka.produce(
        topic.servers, topic.topic, [Record(b"9", astray, partition=location), Record(b"8", None)]
    )
    with pytest.raises(OptionError) as error:
        read(topic.servers, **topic.options())
    reported = str(error.value)
    assert reported.startswith(
        f"option verifyPartitioner: so far {topic.topic} {location}: 1 record, the first at offset "
    )
    assert reported.endswith(
        "or a layout is missing; their keys are in no order: set it to true to continue and mark them in "
        "the column misplaced, or to false to trust only the offsets in partitionLayouts"
    )
    assert astray.decode() not in reported
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        rows = read(topic.servers, **topic.options(verifyPartitioner="true"))
    assert [(row["key"], row["value"]) for row in rows if row["misplaced"]] == [(astray, b"9")]
    assert [row["misplaced"] for row in rows if row["value"] == b"9"] == ["unexplained"]
    assert "no count of partitionLayouts places their keys there by murmur2" in caplog.text


def test_a_projection_without_the_key_is_checked_all_the_same(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    schema = StructType([StructField("layout", IntegerType())])
    result = Read(topic.servers, schema, **topic.options()).column("layout")
    assert sorted(result) == [0] * 80 + [1] * 80
    librdkafka.produce(
        topic.servers, topic.topic, [Record(b"9", KEYS[0], partition=(HASHES[KEYS[0]] + 1) % 2)]
    )
    with pytest.raises(OptionError, match="option verifyPartitioner: "):
        Read(topic.servers, schema, **topic.options()).table()


def refusal(topic: Grown, **given: str) -> str:
    with pytest.raises(OptionError) as error:
        Read(topic.servers, **topic.options(**given))
    assert str(error.value).isprintable()
    return str(error.value)


def test_report_layouts_that_do_not_fit_the_topic(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    name, layouts = topic.topic, topic.layouts
    assert refusal(topic, partitionLayouts=json.dumps({name: layouts[:1]})) == (
        f"option partitionLayouts: {name} has 4 partitions, but its last layout has 2: add a layout with the "
        "current partitions, and the end offsets that the others had when these were added"
    )
    assert refusal(topic, partitionLayouts=json.dumps({"other": layouts[:1]})) == (
        f"option partitionLayouts: topic {name} is read but not listed: add it, with one layout if its "
        "partition count never changed"
    )
    end = librdkafka.offsets(topic.servers, name, 0)[1]
    layouts[1]["boundaries"] = {"0": end + 1, "1": 0}
    assert refusal(topic) == (
        f"option partitionLayouts: the boundary {end + 1} of {name} 0 is after its end {end}: give the end "
        "offset that it had when partitions were added"
    )


def test_accept_a_boundary_that_retention_has_passed(noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    for partition in range(2):
        noida.delete_records(
            topic.topic, partition, librdkafka.offsets(topic.servers, topic.topic, partition)[1] - 1
        )
    rows = read(topic.servers, **topic.options())
    assert {row["layout"] for row in rows} == {1}


def test_partitions_added_while_planning(noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = grown(noida, 2, 4)
    known, ask = topic.text, ModernCluster.bounds

    def growing(
        cluster: ModernCluster, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionBounds]:
        if topic.count == 4:
            topic.grow(6)
        return ask(cluster, partitions)

    monkeypatch.setattr(ModernCluster, "bounds", growing)
    reported = refusal(topic, partitionLayouts=known)
    assert reported.startswith(
        f"option partitionLayouts: {topic.topic} has 6 partitions, but its last layout has 4: add"
    )


def test_a_boundary_in_an_open_transaction_is_in_the_log(noida: NoidaBroker) -> None:
    topic = Grown(noida, 2)
    topic.write()
    open_records = [Record(b"1", key, partition=HASHES[key] % 2) for key in KEYS]
    with librdkafka.transaction(topic.servers, topic.topic, open_records, outcome="open"):
        topic.grow(4)  # behind what is not committed yet
        rows = read(topic.servers, **topic.options(kafka__isolation__level="read_committed"))
        assert {(row["layout"], row["value"]) for row in rows} == {(0, b"0")}
        beyond = {"0": librdkafka.offsets(topic.servers, topic.topic, 0)[1] + 1, "1": 0}
        topic.layouts[1]["boundaries"] = beyond
        assert (
            f"the boundary {beyond['0']} of {topic.topic} 0 is after its end {beyond['0'] - 1}: give"
            in refusal(topic, kafka__isolation__level="read_committed")
        )


# Streams: batches follow each other in the order of keys

Row = dict[str, Any]


def query(topic: Grown, checkpoint: Checkpoint, **given: str) -> Query:
    options = {"kafka.bootstrap.servers": topic.servers, "startingOffsets": "earliest", **QUICK}
    return Query(checkpoint, **{**options, **topic.options(**given)})


def in_order(batches: list[list[Row]], *, as_they_come: bool = False) -> dict[bytes, list[int]]:
    """Numbers of each key's records, batch by batch, each in the order of layout, partition and offset."""
    result: dict[bytes, list[int]] = {}
    for rows in batches:
        if not as_they_come:
            rows = sorted(rows, key=lambda row: (row["layout"], row["partition"], row["offset"]))
        for row in rows:
            result.setdefault(row["key"], []).append(int(row["value"]))
    return result


@pytest.mark.parametrize("counts", [(2, 4, 6), (1, 2, 4), (3, 4, 5)])
def test_batches_follow_in_the_order_of_keys(noida: NoidaBroker, counts: tuple[int, ...]) -> None:
    topic = grown(noida, *counts)
    for limit in ("7", "50", "10000"):
        batches = list(query(topic, Checkpoint(), maxOffsetsPerTrigger=limit).batches())
        assert in_order(batches) == {key: list(range(6)) for key in KEYS}, limit
        assert sum(map(len, batches)) == 6 * len(KEYS)


def test_a_topic_that_grows_ends_its_query_until_layouts_are_set(noida: NoidaBroker) -> None:
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


# Through Spark


def frame_of(spark: SparkSession, topic: Grown, **given: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": topic.servers, **topic.options(**given)}
    return spark.read.format("kafkawire").options(**options).load()


@MAP_IN_ARROW
def test_partitions_and_shuffles_have_keys_in_order(spark: SparkSession, noida: NoidaBroker) -> None:
    frame = frame_of(spark, grown(noida, 2, 4)).select("key", "value")
    assert seen(frame) == Seen(160, len(KEYS), 0)
    frame = frame_of(spark, grown(noida, 2, 4, 6))
    assert seen(in_key_order(frame, partitions=3)) == Seen(240, len(KEYS), 0)
    assert seen(frame.repartition(3, "key").sortWithinPartitions("partition", "offset")).inversions > 0
    assert in_key_order(frame, partitions=3).rdd.getNumPartitions() == 3


def test_the_report_counts_strays_and_says_what_is_promised(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    location = (HASHES[KEYS[0]] + 1) % 2
    librdkafka.produce(topic.servers, topic.topic, [Record(b"9", KEYS[0], partition=location)] * 3)
    with pytest.raises(
        OptionError, match=r"^misplaced_report: the frame has no column misplaced: read with "
    ):
        misplaced_report(frame_of(spark, topic))
    rows = misplaced_report(frame_of(spark, topic, verifyPartitioner="true")).orderBy("misplaced").collect()
    assert [(row.topic, row.misplaced, row.records, row["keys"]) for row in rows] == [
        (topic.topic, None, 160, 0),
        (topic.topic, "unexplained", 3, 1),
    ]
    assert [row.promise.partition(":")[0] for row in rows] == [
        "in the order in which they were produced",
        "none",
    ]
    assert rows[0].examples is None
    end = librdkafka.offsets(topic.servers, topic.topic, location)[1]
    assert [(item.partition, item.offset, bytes(item.key)) for item in rows[1].examples] == [
        (location, end - 3, KEYS[0]),
        (location, end - 1, KEYS[0]),
    ]
