"""Run the jobs on logs that a real Kafka 0.7.2 broker wrote: ``make demo``.

Starts ZooKeeper and two embedded brokers on a copy of the recorded logs and submits
``jobs/quickstart.py``; then starts noida-db, a broker of today's protocol, and submits
``jobs/copy_topic.py``, which copies the topic to it. Stops everything again, whatever ends it. The
exit code is that of the first job that failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from spark_kafkawire.broker import EmbeddedCluster

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "golden" / "kafka-0.7.2" / "corpus"
TOPIC = "debian-gzip"
#: The topic's logs: three on each of two brokers.
LOG_COUNT = 6
COPY = "debian"
STOP_TIMEOUT_S = 10.0
#: A JVM that lives for seconds compiles little, and collects garbage on one thread: half the processor time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> int:
    """Run the demo; the exit code."""
    description = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser("demo.py", description=__doc__, formatter_class=description).parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkawire-demo-") as folder:
        progress("copying partitions that a real Kafka 0.7.2 broker wrote")
        log_dirs = [
            Path(shutil.copytree(CORPUS / name, Path(folder, name))) for name in ("broker0", "broker1")
        ]
        progress("starting ZooKeeper and two embedded Kafka 0.7 brokers on them")
        with EmbeddedCluster(brokers=2, partitions=3, log_dirs=log_dirs) as cluster:
            source = ["--zookeeper", cluster.zookeeper_connect, "--topic", TOPIC]
            return spark_submit(["jobs/quickstart.py", *source]) or copy_topic(source)


def copy_topic(source: Sequence[str]) -> int:
    """Copy the topic to a modern broker, if one can be started. Returns the job's exit code."""
    if importlib.util.find_spec("noida_db") is None:
        progress("not copying to a modern broker: noida-db is not installed")
        return 0
    from tests.support.noida import NoidaBroker

    progress("starting noida-db, a broker of today's Kafka")
    with NoidaBroker() as broker:
        broker.create_topic(LOG_COUNT, COPY)
        target = ["--bootstrap-servers", broker.bootstrap_servers, "--output-topic", COPY]
        return spark_submit(["jobs/copy_topic.py", *source, *target])


def spark_submit(arguments: Sequence[str]) -> int:
    """Submit a job with this Python's Spark and the settings of ``jobs/conf``; its exit code."""
    from tests.support.local_spark import home_with_byte_code

    progress(f"running spark-submit {' '.join(arguments)}")
    bin_dir = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(ROOT / "jobs" / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Without it each of a dozen Python processes compiles pyspark again.
        "SPARK_HOME": home_with_byte_code(),
    }
    # In a session of its own, so that one signal ends spark-submit, its JVM, the job and its workers.
    command = [str(bin_dir / "spark-submit"), "--driver-java-options", JAVA_OPTIONS, *arguments]
    job = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        return job.wait()
    finally:
        stop_session(job)


def stop_session(job: subprocess.Popen[bytes]) -> None:
    """End the remaining processes of the job's session, if any."""
    for stop_signal in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(job.pid, stop_signal)
            job.wait(STOP_TIMEOUT_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def end_in_order(number: int, _frame: object) -> None:
    """Handle a signal: leave every ``with`` and ``finally``, then exit as shells expect."""
    sys.exit(128 + number)


def progress(what: str) -> None:
    """Print the current step."""
    print(f"demo: {what} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, end_in_order)
    sys.exit(main())
