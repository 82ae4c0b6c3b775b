"""An environment that venv-pack packed and --archives shipped, as the recipe for YARN has it."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.submitting import environment, submit_words
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.installing import build_wheel, install_wheel, run
from tests.support.noida import NoidaBroker
from tests.support.spark_cluster import SparkCluster

PROGRAM: Final = """
import json, sys
from pyspark.sql import SparkSession

def packages(_):
    import spark_kafkawire
    yield spark_kafkawire.__file__

spark = SparkSession.builder.getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
rows = spark.read.format("kafkawire").options(**options).load().count()
found = spark.sparkContext.parallelize(range(2), 2).mapPartitions(packages).collect()
print(json.dumps({"rows": rows, "packages": found}))
"""


@pytest.mark.timeout(600)
def test_executors_run_the_environment_that_was_packed_and_shipped(
    cluster: SparkCluster, workplace: Path, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    librdkafka.produce(
        noida.bootstrap_servers, topic, [Record(b"x", partition=each % 2) for each in range(10)]
    )
    (tmp_path / "wheel").mkdir()
    install_wheel(tmp_path / "env", build_wheel(tmp_path / "wheel"))
    pack = Path(sys.executable).with_name("venv-pack")
    packed = run(pack, "--quiet", "--prefix", "env", "-o", "env.tar.gz", cwd=tmp_path)
    assert packed.returncode == 0, packed.stdout
    (tmp_path / "program.py").write_text(PROGRAM)

    # What the package needs is not in this archive, to be quick.
    dependencies = sysconfig.get_path("purelib")
    settings = {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": dependencies}
    words = [*submit_words(cluster.master, settings), "--archives", "env.tar.gz#env", "program.py"]
    done = subprocess.run(
        [*words, noida.bootstrap_servers, topic],
        cwd=tmp_path,
        env=environment(workplace)
        | {"PYTHONPATH": dependencies, "PYSPARK_DRIVER_PYTHON": "env/bin/python"}
        | {"PYSPARK_PYTHON": "./env/bin/python"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["rows"] == 10
    for package in map(Path, reported["packages"]):
        assert package.is_relative_to(workplace), "a worker's folder"
        assert package.match("env/lib/python*/site-packages/spark_kafkawire/__init__.py")
