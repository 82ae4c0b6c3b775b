"""Ingest onto a disk that is full or read-only: the output is complete, and the next run continues."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.shell.failures import explained, failures
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from ..small_disk import SmallDisk
from .ingesting import QUIET, options_of, values_of

COUNT: Final = 2000
#: KiB of a disk, from one on which nothing has a place to one that holds the output nearly; a page is 4.
SIZES: Final = (4, 12, 20, 36, 52, 84)


@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_what_a_full_disk_has_cut_is_never_shown(
    spark: SparkSession, noida: NoidaBroker, disk: SmallDisk, file_format: str
) -> None:
    topic = noida.create_topic(2)
    records = [Record(b'{"n": %d}' % number, partition=number % 2) for number in range(COUNT)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    output = OutputOptions(f"{disk.folder}/out", format=file_format, decode="string")
    options = options_of(noida, topic, output, group=f"g-{topic}")
    lines = []
    for size in SIZES:
        disk.remount(f"size={size}k")
        try:
            Ingest(spark, options, QUIET).run()
            break
        except failures() as error:
            lines.append(explained(error)[0])
        assert not [*disk.folder.glob("out/batch=*")]
        assert librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic) <= 0
    assert len(lines) >= 3
    assert [line for line in lines if "No space left on device" not in line or not line.isprintable()] == []
    # What is full, and what to do.
    assert [line for line in lines if not line.startswith(f"{disk.folder}/") or "run again" not in line] == []
    disk.remount("size=16m")
    Ingest(spark, options, QUIET).run()
    rows = spark.read.format(file_format).load(output.path).selectExpr("get_json_object(value, '$.n') AS n")
    assert sorted(int(row.n) for row in rows.collect()) == [*range(COUNT)]
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic) == COUNT // 2


def test_a_read_only_output_is_named_and_nothing_is_committed(
    spark: SparkSession, noida: NoidaBroker, disk: SmallDisk
) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b'{"n": 0}')])
    disk.remount("size=16m")
    output = OutputOptions(f"{disk.folder}/out")
    options = options_of(noida, topic, output, group=f"g-{topic}")
    Ingest(spark, options, QUIET).run()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b'{"n": 1}')])
    disk.remount("ro")
    with pytest.raises(failures()) as refused:
        Ingest(spark, options, QUIET).run()
    assert explained(refused.value)[0] == (
        f"{disk.folder}/out/_kafkawire/lock: cannot write: Read-only file system; let this user write there, "
        "and run again"
    )
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic) == 1
    disk.remount("rw")
    Ingest(spark, options, QUIET).run()
    assert values_of(spark, output) == [0, 1]
