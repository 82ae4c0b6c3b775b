"""Show messages of topics: the last ones, or those from an offset or a time on.

    kafkawire show \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --topic orders --max 5

The command prints the last messages of all partitions, by their times: topic, partition, offset and time,
then key, headers and value. Kafka 0.7 has no times: there the last messages are those of the last
partitions. --partition chooses partitions; --offset and --since show the first messages from there on.

Control characters are escaped. A missing key or value is (null). Bytes that are no UTF-8 are
{"hex": "..."}, and what is longer than --max-bytes is {"text": "...", "bytes": COUNT}. With valueFormat,
keyFormat and the options of a schema registry, keys and values are decoded. --option path=DIR reads a log
directory of a broker, without the broker.

--format json prints a JSON object in each line, --json all messages as one object, and --format hex the
bytes of binary keys and values. No offset is committed. The command does not need Spark.

The exit code is 0 for done, 1 for failed, 2 for wrong usage.
"""

from __future__ import annotations

import sys

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.show import ShowOptions, run_show

JOB = Job("show", __doc__, ShowOptions, run_show)


if __name__ == "__main__":
    sys.exit(JOB.main())
