"""Show the topics of a cluster and the offsets and lag of its consumer groups; export and import offsets.

    kafkawire offsets \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --group etl --html offsets.html

The report lists brokers, topics and partitions; where each partition begins and ends; segments and bytes for
Kafka 0.7, records and their times for later versions; and the offset and lag of each selected group. It goes
to stdout as a table, or as one JSON object with --json. --html also writes a page with bars and colours. The
command does not need Spark.

--export writes the offsets of the groups to a file, and --import commits the offsets of such a file. For 0.7
its lines are those of ExportZkOffsets and ImportZkOffsets,
    /consumers/GROUP/offsets/TOPIC/BROKER-PARTITION:OFFSET
for later versions those of kafka-consumer-groups.sh, without the group if you give one --group:
    GROUP,TOPIC,PARTITION,OFFSET
A group with active members is not changed, because they would overwrite the imported offsets.

--check is for scheduled monitoring. It reports offsets outside of their partitions (retention was faster than
the group, the log was created again, or no broker has it) and groups without any offset.

The exit code is 0 for done, 1 for failed, 2 for wrong usage, and with --check 3 if it reports anything.
"""

from __future__ import annotations

import sys
from typing import Any

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.offsets.run import OffsetsOptions, run_offsets


def describe_left(arguments: Any) -> str:
    """The work that an interrupted run leaves, and the next step."""
    if vars(arguments)["import"] is not None and not arguments.dry_run:
        return "some offsets may be committed; run it again, which commits all"
    return "no offset was changed; run it again"


JOB = Job("offsets", __doc__, OffsetsOptions, run_offsets, describe_left)


if __name__ == "__main__":
    sys.exit(JOB.main())
