"""`jobs/ingest.py` with a log directory as its source: no broker runs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ingest.options import IngestOptions
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest
from tests.support.log_folders import KILLED, KILLED_END, START_OFFSET

from .ingesting import QUIET


def test_a_directory_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    output = OutputOptions(path=f"{tmp_path}/out")
    options = IngestOptions({"path": str(KILLED)}, output, {"subscribe": "events"})
    # Two offsets are those of markers.
    count = KILLED_END - START_OFFSET - 2
    assert Ingest(spark, options, QUIET).run()["messages"] == count
    assert Ingest(spark, options, QUIET).run()["messages"] == 0
    assert spark.read.parquet(output.path).count() == count
