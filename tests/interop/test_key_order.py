"""Keys of a real topic that grows while Java's producers write: each in the order in which it was sent."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire import in_key_order, misplaced_report
from spark_kafkawire.cluster import cluster_of
from spark_kafkawire.options import ReadOptions
from tests.support import librdkafka
from tests.support.key_order import Seen, seen

from .apache_kafka import ApacheKafka
from .versions import judge_of, newest

KEYS: Final = 100_000


@newest
def test_100_000_keys_are_in_order_while_partitions_go_from_2_to_4_to_6(
    spark: SparkSession, kafka: ApacheKafka
) -> None:
    servers, counts = kafka.bootstrap_servers(), "2,4,6"
    topic = librdkafka.create_topic(servers, 2)
    written = json.loads(judge_of("KeyOrderJudge.java", "4.1.1")(servers, topic, str(KEYS), counts))
    records, layouts = written["records"], json.dumps({topic: written["layouts"]})

    def load(**given: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic, **given}
        return spark.read.format("kafkawire").options(**options).load()

    def in_layouts(**given: str) -> DataFrame:
        return load(**{"keyOrder": "true", "partitionLayouts": layouts, **given})

    assert seen(in_key_order(in_layouts())) == Seen(records, KEYS, 0)
    # Without it, the best that a plain read offers: all of a key together, by partition and offset.
    plain = load().repartition("key").sortWithinPartitions("partition", "offset")
    without = seen(plain)
    assert (without.rows, without.keys) == (records, KEYS)
    assert without.inversions > 0
    alone = seen(in_key_order(in_layouts(verifyPartitioner="false")))
    misplaced = misplaced_report(in_layouts(verifyPartitioner="true")).collect()
    late = {row.misplaced: row.records for row in misplaced}
    print(f"{records} records; inversions without: {without.inversions}, ", end="")
    print(f"by boundaries alone: {alone.inversions}; misplaced: {late}")
    # Whoever learns late writes behind the boundary; nobody else is where he does not belong.
    assert late.keys() == {None, "late"}


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
