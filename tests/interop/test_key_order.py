"""Keys of a real topic that grows while Java's producers write: each in the order in which it was sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire import in_key_order, misplaced_report
from spark_kafkawire.cluster.cluster import cluster_of
from spark_kafkawire.options import ReadOptions
from tests.support import librdkafka
from tests.support.key_order import Seen, seen

from .apache_kafka import ApacheKafka
from .judging import judge_of
from .versions import newest

KEYS: Final = 100_000
FEWER_KEYS: Final = 10_000


@dataclass(frozen=True)
class Written:
    """A written topic: its records, and the steps in which it grew."""

    spark: SparkSession
    servers: str
    topic: str
    records: int
    layouts: list[dict[str, Any]]
    moments: list[str]

    def load(self, **given: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.servers, "subscribe": self.topic, **given}
        return self.spark.read.format("kafkawire").options(**options).load()

    def in_layouts(self, **given: str) -> DataFrame:
        layouts = json.dumps({self.topic: self.layouts})
        return self.load(**{"keyOrder": "true", "partitionLayouts": layouts, **given})

    def by_moments(self) -> DataFrame:
        counts = [{"partitions": each["partitions"]} for each in self.layouts]
        layouts = json.dumps({self.topic: counts})
        return self.in_layouts(partitionLayouts=layouts, expansionTimestamp=",".join(self.moments))


def written(spark: SparkSession, servers: str, keys: int, counts: str) -> Written:
    topic = librdkafka.create_topic(servers, int(counts.partition(",")[0]))
    reported = json.loads(judge_of("KeyOrderJudge.java", "4.1.1")(servers, topic, str(keys), counts))
    return Written(spark, servers, topic, **reported)


@newest
def test_100_000_keys_are_in_order_while_partitions_go_from_2_to_4_to_6(
    spark: SparkSession, kafka: ApacheKafka
) -> None:
    topic = written(spark, kafka.bootstrap_servers(), KEYS, "2,4,6")
    assert seen(in_key_order(topic.in_layouts())) == Seen(topic.records, KEYS, 0)
    # Without it, the best that a plain read offers: all of a key together, by partition and offset.
    plain = topic.load().repartition("key").sortWithinPartitions("partition", "offset")
    without = seen(plain)
    assert (without.rows, without.keys) == (topic.records, KEYS)
    assert without.inversions > 0
    alone = seen(in_key_order(topic.in_layouts(verifyPartitioner="false")))
    misplaced = misplaced_report(topic.in_layouts(verifyPartitioner="true")).collect()
    late = {row.misplaced: row.records for row in misplaced}
    print(f"{topic.records} records; inversions without: {without.inversions}, ", end="")
    print(f"by boundaries alone: {alone.inversions}; misplaced: {late}")
    # Whoever learns late writes behind the boundary; nobody else is where he does not belong.
    assert late.keys() == {None, "late"}


@newest
def test_parents_before_their_children_need_no_shuffle(spark: SparkSession, kafka: ApacheKafka) -> None:
    topic = written(spark, kafka.bootstrap_servers(), FEWER_KEYS, "2,4,8")
    for frame in (topic.in_layouts(), topic.by_moments()):
        assert frame.rdd.getNumPartitions() == 2
        assert seen(frame) == Seen(topic.records, FEWER_KEYS, 0)
    plain = seen(topic.load())
    assert plain.rows == topic.records
    assert plain.keys > FEWER_KEYS, "keys are in several Spark partitions, which see them at the same time"
    assert seen(in_key_order(topic.by_moments())) == Seen(topic.records, FEWER_KEYS, 0)


@newest
def test_leader_epochs_do_not_rise_where_partitions_are_added(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2)

    def layouts() -> list[int]:
        options = ReadOptions.parse({"kafka.bootstrap.servers": servers, "subscribe": topic})
        cluster = cluster_of(options)
        return [
            leader.epoch for _, leader in sorted(cluster.leaders_of(cluster.partitions_of([topic])).items())
        ]

    assert layouts() == [0, 0]
    librdkafka.create_partitions(servers, topic, 4)
    assert layouts() == [0, 0, 0, 0]
