"""Code that the examples ``quickstart.py`` and ``copy_topic.py`` share: jobs that check their result.

    def main() -> int:
        return run_example(make_parser(), run)

    def run(spark, arguments) -> dict:
        messages = read_topic(spark, arguments.zookeeper, arguments.topic)
        ...
        return {"match": ...}

Tables and progress go to stdout, and last the report, one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..command_line import JobParser, warnings_on_stderr
from ..ending import ExitCode, failures
from .session import job_session


def example_parser(job: str, description: str | None) -> JobParser:
    """The command line of an example, which names a topic of Kafka 0.7."""
    parser = JobParser(job, description)
    parser.add_argument(
        "--zookeeper",
        required=True,
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help="the ZooKeeper that the Kafka 0.7 brokers are registered in",
    )
    parser.add_argument("--topic", required=True, help="the topic to read, whole")
    return parser


def run_example(
    parser: JobParser, run: Callable[[SparkSession, argparse.Namespace], Mapping[str, Any]]
) -> ExitCode:
    """Run an example and print its report; ``FAILED`` where ``match`` of that is false."""
    arguments = parser.parse_args()
    try:
        with warnings_on_stderr(parser), job_session(parser.job) as spark:
            report = run(spark, arguments)
    except failures() as error:
        return parser.report(error)
    print(json.dumps(report), flush=True)
    return ExitCode.DONE if report["match"] else ExitCode.FAILED


def read_topic(spark: SparkSession, zookeeper: str, topic: str) -> DataFrame:
    """All messages that a topic of Kafka 0.7 holds now."""
    return (
        spark.read.format("kafkawire")
        .option("zookeeper.connect", zookeeper)
        .option("subscribe", topic)
        .load()
    )
