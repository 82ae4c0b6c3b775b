"""Show the position of a streaming query from its checkpoint, and move it to another connector or offset.

    kafkawire checkpoints /data/checkpoint --to kafkawire

The command prints the topics, partitions and offsets of each source, the last batch, and whether that batch
is done. Stop the query first. Nothing is changed without --write.

--to says what format("kafka") or format("kafkawire") needs to continue the query. Once the first batch is
done, it needs nothing. Before that, Spark's own connector keeps its start in a file of the checkpoint,
sources/0/0, which only that connector reads. To move to kafkawire, give the printed offsets as
startingOffsets. To move to kafka, --write creates that file and keeps a copy of the old one. --write also
sets aside the files of a driver that was killed while Spark wrote the very first offsets: a query cannot
start with them.

--place with --write moves a query to other offsets, for example after a DataLossError with no proven cause:
'{"t": {"0": 11}}' continues at offset 11 of partition 0, and '{"t": {}}' reads the topic t from its first
record. An unfinished batch is set aside if it contains lost offsets, because it cannot run.

The checkpoint is a local folder or a file:/... URI. Copy a checkpoint of HDFS or of an object store to this
machine, and copy the result back. The command does not need Spark.

The exit code is 0 for done, 1 for a checkpoint that cannot be read or rewritten, 2 for wrong usage.
"""

from __future__ import annotations

import sys

from spark_kafkawire.jobs.checkpoints import CheckpointOptions, run_checkpoints
from spark_kafkawire.jobs.command_line import Job

_WRITTEN = "each file was changed as a whole or not at all; run it again"
JOB = Job(
    "checkpoints",
    __doc__,
    CheckpointOptions,
    run_checkpoints,
    lambda arguments: _WRITTEN if arguments.write else "nothing was changed",
)


if __name__ == "__main__":
    sys.exit(JOB.main())
