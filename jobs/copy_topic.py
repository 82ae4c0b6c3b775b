"""Copy a Kafka 0.7 topic to today's Kafka with Spark, read the copy back, and compare checksums.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/copy_topic.py \\
        --zookeeper 127.0.0.1:2181 --topic debian-gzip \\
        --bootstrap-servers 127.0.0.1:9092 --output-topic debian

Each partition of the old topic, a partition of one broker, becomes one partition of the new topic, in the
same order. The new topic must be there, empty, with as many partitions. Progress goes to stdout, and
last one JSON object. The exit code is 1 where the copy is not equal.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql.functions import concat_ws, count, create_map, lit, row_number, xxhash64
from pyspark.sql.functions import sum as total
from pyspark.sql.types import DecimalType

from spark_kafkawire.jobs.command_line import JobParser
from spark_kafkawire.jobs.spark import example_parser, read_topic, run_example
from spark_kafkawire.model import Generation
from spark_kafkawire.options import COMPRESSIONS


def main() -> int:
    """Run the job; the exit code."""
    return run_example(make_parser(), run)


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Copy, read back, compare. Returns the result."""
    started_s = time.monotonic()
    progress(f"reading {arguments.topic} of Kafka 0.7")
    # Cached, so that all that follows is one read of the topic.
    messages = in_new_partitions(read_topic(spark, arguments.zookeeper, arguments.topic).cache())
    sent = checksums(messages, "offset", "index")
    progress(f"writing it to {arguments.output_topic} of today's Kafka")
    write_new(messages, arguments)
    progress(f"reading {arguments.output_topic} back")
    received = checksums(read_new(spark, arguments), "offset")
    return {
        "copied": sum(partition.messages for partition in sent),
        "partitions": len(sent),
        "read_back": sum(partition.messages for partition in received),
        "match": received == sent,
        "seconds": round(time.monotonic() - started_s, 1),
    }


def make_parser() -> JobParser:
    """The command line."""
    parser = example_parser("copy_topic", __doc__)
    parser.add_argument(
        "--bootstrap-servers",
        required=True,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="some brokers of the cluster to copy to",
    )
    parser.add_argument("--output-topic", required=True, help="the topic to copy to, empty")
    parser.add_argument(
        "--compression",
        choices=COMPRESSIONS[Generation.MODERN],
        default="zstd",
        help="how the written messages are compressed (default: %(default)s)",
    )
    return parser


def in_new_partitions(messages: DataFrame) -> DataFrame:
    """The messages, each with the number of its log among all partitions as its partition."""
    partitions = messages.select("broker", "partition").distinct().orderBy("broker", "partition").collect()
    numbers = [
        lit(word)
        for number, partition in enumerate(partitions)
        for word in (f"{partition[0]}-{partition[1]}", number)
    ]
    number = create_map(*numbers)[concat_ws("-", "broker", "partition")]
    return messages.select(number.alias("partition"), "offset", "index", "value")


def write_new(messages: DataFrame, arguments: argparse.Namespace) -> None:
    """Write the messages. A partition is one task's, which keeps its order."""
    (
        messages.select("partition", "value")
        .write.format("kafkawire")
        .mode("append")
        .option("kafka.bootstrap.servers", arguments.bootstrap_servers)
        .option("topic", arguments.output_topic)
        .option("compression", arguments.compression)
        .save()
    )


def read_new(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """All records that the new topic holds now."""
    return (
        spark.read.format("kafkawire")
        .option("kafka.bootstrap.servers", arguments.bootstrap_servers)
        .option("subscribe", arguments.output_topic)
        .load()
    )


def checksums(messages: DataFrame, *place: str) -> list[Row]:
    """Count and checksum of each partition; values that changed places in it make another checksum."""
    in_order = Window.partitionBy("partition").orderBy(*place)
    hashed = xxhash64(row_number().over(in_order), "value").cast(DecimalType(38))
    rows = messages.select("partition", hashed.alias("hash")).groupBy("partition")
    sums = rows.agg(count("*").alias("messages"), total("hash").alias("checksum"))
    return sums.orderBy("partition").collect()


def progress(what: str) -> None:
    """Print the current step."""
    print(f"copy: {what} ...", flush=True)


if __name__ == "__main__":
    sys.exit(main())
