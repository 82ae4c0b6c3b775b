"""Make the JAVA_HOME of JVMs that live for seconds, such as those of the tests.

    python .ci/short_lived_java.py FOLDER

Its ``java`` runs Spark's Java with options to compile little and to collect garbage on one thread, which
halves the processor time of a short Spark job. It also loads the classes of Spark and ZooKeeper from an
archive, which halves the rest. A small job that this script runs makes the archive. A Java that cannot make
one, or that finds one of another Java or of other jars, silently runs without it. ``KAFKAWIRE_JAVA=plain`` in
the environment switches all of this off.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.broker.cluster import find_java

HOST: Final = "127.0.0.1"
#: Far more than the job takes, seconds.
DEADLINE_S: Final = 300.0

# An archive serves class paths that begin with its own, which may contain no folder. So the jars come first,
# by their resolved names, and Spark's folder of settings comes last.
_WRAPPER: Final = """\
#!/usr/bin/env bash
java={java} jars={jars} first={first} archive={archive}
[[ $KAFKAWIRE_JAVA == plain ]] && exec "$java" "$@"
options=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
words=()
while (($#)); do
    words+=("$1")
    path=$2 last=${{2##*:}} settings=
    if [[ $1 == -cp && $last == *'/*' && ${{last%'/*'}} -ef $jars ]]; then
        [[ $path == *:* ]] && settings=:${{path%%:*}}
        words+=("$first:$jars/*$settings")
        if [[ -n $KAFKAWIRE_ARCHIVE && $* == *SparkSubmit* && $* != *launcher.Main* ]]; then
            options+=("-XX:ArchiveClassesAtExit=$KAFKAWIRE_ARCHIVE" '-Xlog:cds*=off')
        elif [[ -f $archive && $* != *Archive* ]]; then  # else it brings one of its own
            options+=("-XX:SharedArchiveFile=$archive" '-Xlog:cds*=off')
        fi
        shift
    fi
    shift
done
exec "$java" "${{options[@]}}" "${{words[@]}}"
"""


def main(home: Path) -> None:
    """Write the ``java``, and run the job."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    jars = Path(spec.submodule_search_locations[0], "jars")
    [first] = jars.glob("slf4j-api-*.jar")  # as Spark has them
    if Path(os.environ.get("JAVA_HOME", "")).resolve() == home.resolve():
        del os.environ["JAVA_HOME"]  # its java would start itself for ever
    write_wrapper(home, java=find_java(), jars=jars, first=first, archive=home / "classes.jsa")
    with tempfile.TemporaryDirectory(prefix="kafkawire-brief-java-") as folder:
        made = Path(folder, "classes.jsa")
        os.environ |= {"JAVA_HOME": str(home), "KAFKAWIRE_ARCHIVE": str(made)}
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
        use_classes(Path(folder))
        if made.exists():
            shutil.move(made, home / "classes.jsa")  # /tmp may be another file system


def write_wrapper(home: Path, **places: Path) -> None:
    """Write the home's ``bin/java``."""
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(**{name: shlex.quote(str(path)) for name, path in places.items()}))
    wrapper.chmod(0o755)


def use_classes(folder: Path) -> None:
    """Run a little of everything that tests do in Spark and ZooKeeper; return when their JVM has ended."""
    from pyspark.sql import SparkSession

    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    use_zookeeper(gateway, folder)
    with EmbeddedCluster(brokers=1, partitions=2, zookeeper=False) as cluster:
        use_spark(spark, {"broker.list": cluster.broker_list}, str(folder))
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(DEADLINE_S)


def use_zookeeper(gateway: Any, folder: Path) -> None:
    """Run a server within the JVM, which stops only with the JVM, and make a node in it."""
    from py4j.protocol import Py4JError

    def serve() -> None:
        with contextlib.suppress(Py4JError, OSError):
            gateway.jvm.org.apache.zookeeper.server.quorum.QuorumPeerMain.main(words)

    config = folder / "zoo.cfg"
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    lines = (f"dataDir={folder}/zookeeper", f"clientPortAddress={HOST}", f"clientPort={port}")
    config.write_text("\n".join((*lines, "admin.enableServer=false", "")))
    words = gateway.new_array(gateway.jvm.java.lang.String, 1)
    words[0] = str(config)
    threading.Thread(target=serve, daemon=True).start()
    client = KazooClient(f"{HOST}:{port}")
    client.start(DEADLINE_S)
    client.create("/brokers/ids/0", b"", makepath=True, ephemeral=True)
    client.stop()
    client.close()


def use_spark(spark: Any, options: dict[str, str], folder: str) -> None:
    """Write and read in each of the ways: rows, files, topics, streams."""
    rows = spark.createDataFrame([("a",), ("b",), ("a",)], "value string")
    rows.write.format("kafkawire").mode("append").options(**options, topic="t").save()
    reader = spark.read.format("kafkawire").options(**options, subscribe="t")
    for file_format in ("parquet", "json"):
        reader.load().selectExpr("*", "CAST(value AS string) AS text").write.format(file_format).save(
            f"{folder}/{file_format}"
        )
        spark.read.format(file_format).load(f"{folder}/{file_format}").orderBy("text").collect()
    counted = reader.load().repartition(2).groupBy("value").count()
    counted.join(reader.load(), "value").orderBy("value").toArrow()
    spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
    stream = spark.readStream.format("kafkawire").options(**options, subscribe="t").load()
    writer = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).format("parquet").start(f"{folder}/streamed").awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
