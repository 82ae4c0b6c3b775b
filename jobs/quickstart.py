"""Read a Kafka 0.7 topic with Spark, count, write the counts to a new topic, and read them back.

    spark-submit --py-files dist/spark_kafkawire.zip jobs/quickstart.py \\
        --zookeeper 127.0.0.1:2181 --topic debian-gzip

The topic's messages are JSON objects that have a field ``section``, as Debian's package records do.
Tables and progress go to stdout, and last one JSON object. The exit code is 1 where the counts that
were read back differ from those that were written.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, count, from_json, struct, to_json

from spark_kafkawire.jobs.command_line import JobParser
from spark_kafkawire.jobs.spark import example_parser, read_topic, run_example
from spark_kafkawire.model import Generation
from spark_kafkawire.options import COMPRESSIONS

PACKAGE_SCHEMA = "package string, version string, architecture string, section string, size string"
COUNT_SCHEMA = "section string, packages long"


def main() -> int:
    """Run the job; the exit code."""
    return run_example(make_parser(), run)


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Read, count, write, read back. Returns the result."""
    started_s = time.monotonic()
    output_topic = arguments.output_topic or f"{arguments.topic}-sections-{int(time.time())}"
    progress(f"reading {arguments.topic}")
    # Cached, so that all that follows is one read of the topic.
    messages = read_topic(spark, arguments.zookeeper, arguments.topic).cache()
    partitions = show_partitions(messages)
    progress("parsing the messages, counting packages per section")
    counts = show_sections(messages, arguments.rows).cache()
    written = in_order(counts)
    progress(f"writing {len(written)} counts to {output_topic}")
    write_topic(counts, arguments.zookeeper, output_topic, arguments.compression)
    progress(f"reading {output_topic} back")
    copies = read_topic(spark, arguments.zookeeper, output_topic)
    read_back = in_order(from_values(copies, COUNT_SCHEMA))

    read = sum(partition.messages for partition in partitions)
    return {
        "read": read,
        "partitions": len(partitions),
        "written": len(written),
        "read_back": len(read_back),
        "match": read_back == written and sum(row.packages for row in written) == read,
        "seconds": round(time.monotonic() - started_s, 1),
    }


def make_parser() -> JobParser:
    """The command line."""
    parser = example_parser("quickstart", __doc__)
    parser.add_argument(
        "--output-topic",
        help="the topic to write to, which must not exist yet (default: TOPIC-sections-UNIXTIME)",
    )
    parser.add_argument(
        "--compression",
        choices=COMPRESSIONS[Generation.V07],
        default="snappy",
        help="how the written messages are compressed (default: %(default)s)",
    )
    parser.add_argument(
        "--rows", type=int, default=10, help="how many rows of each table to show (default: %(default)s)"
    )
    return parser


def show_partitions(messages: DataFrame) -> list[Row]:
    """Show the schema and the number of messages of each broker-partition; those numbers."""
    messages.printSchema()
    partitions = messages.groupBy("broker", "partition").agg(count("*").alias("messages"))
    partitions = partitions.orderBy("broker", "partition")
    counts = partitions.collect()
    partitions.show(len(counts))
    return counts


def show_sections(messages: DataFrame, rows: int) -> DataFrame:
    """Show some packages and the largest sections; the packages of every section."""
    packages = from_values(messages, PACKAGE_SCHEMA)
    packages.show(rows, truncate=40)
    sections = packages.groupBy("section").agg(count("*").alias("packages"))
    sections.orderBy(col("packages").desc(), "section").show(rows)
    return sections


def from_values(messages: DataFrame, schema: str) -> DataFrame:
    """The fields of the messages' JSON objects."""
    value = from_json(col("value").cast("string"), schema)
    return messages.select(value.alias("value")).select("value.*")


def in_order(counts: DataFrame) -> list[Row]:
    """All counts, in the order of their sections."""
    return counts.orderBy("section", "packages").collect()


def write_topic(rows: DataFrame, zookeeper: str, topic: str, compression: str) -> None:
    """Write each row as a JSON object; afterwards it is proven to be in the topic."""
    (
        rows.select(to_json(struct("*")).alias("value"))
        .write.format("kafkawire")
        .mode("append")
        .option("zookeeper.connect", zookeeper)
        .option("topic", topic)
        .option("compression", compression)
        .option("acks", "verify")
        .save()
    )


def progress(what: str) -> None:
    """Print the current step."""
    print(f"quickstart: {what} ...", flush=True)


if __name__ == "__main__":
    sys.exit(main())
