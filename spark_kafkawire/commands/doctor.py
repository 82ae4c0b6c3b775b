"""Check what the options of a job reach, step by step, and say what to set.

    kafkawire doctor \\
        --option kafka.bootstrap.servers=127.0.0.1:9092 --option subscribe=orders

The command takes the options of a read, a write or a stream, and does in small steps what a read does:
options, names, tcp, tls, versions, login, listeners (the addresses that brokers advertise), topics, leaders,
group, offsets, records (the newest one of each topic) and clock; zookeeper for Kafka 0.7; registry and
schema for typed keys and values. A missing right is the step access. Each step is a line: ok, slow, warning
or failed, the seconds, and for a failure the error of the read, which says what to set. Steps that need one
that failed are left out. Nothing is written, no offset is committed, and no Spark is needed.

--code takes the options from code of Spark, .option("name", "value") or .options(name="value"), of the first
format("kafka") or format("kafkawire"); those of --option and --options-file beat them. --from-spark prints
options of format("kafka") as those of format("kafkawire"), with what differs, and checks nothing.

The exit code is 0 if no step failed, 2 if an option or what it names is wrong, 1 for other failures.
"""

from __future__ import annotations

import sys

from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.doctor import DoctorOptions, run_doctor

JOB = Job("doctor", __doc__, DoctorOptions, run_doctor)


if __name__ == "__main__":
    sys.exit(JOB.main())
