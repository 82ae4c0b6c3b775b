"""Lineage of jobs: where OpenLineage is configured, each job reports the topics that it reads and writes,
also those that it moves in tasks of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_kafkawire
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.jobs.spark import sending_lineage
from tests.support.noida import NoidaBroker

from .submitting import RunHere


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of events that OpenLineage's own settings name."""
    path, settings = tmp_path / "events.json", tmp_path / "openlineage.yml"
    settings.write_text(
        json.dumps({"transport": {"type": "file", "log_file_path": str(path), "append": True}})
    )
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(settings))
    return path


def runs(path: Path) -> dict[str, tuple[list[str], list[Any], list[Any]]]:
    """States of each job, and the datasets of its end with their counts."""
    result: dict[str, tuple[list[str], list[Any], list[Any]]] = {}
    for event in map(json.loads, path.read_text().splitlines()):
        name = event["job"]["name"].partition(".")[2]
        states = [*result.get(name, ([], [], []))[0], event["eventType"]]
        result[name] = (
            states,
            [
                (item["namespace"], item["name"], item["inputFacets"]["inputStatistics"]["rowCount"])
                for item in event["inputs"]
            ],
            [
                (item["namespace"], item["name"], item["outputFacets"]["outputStatistics"]["rowCount"])
                for item in event["outputs"]
            ],
        )
    return result


def test_jobs_send_lineage_of_their_topics(
    run_here: RunHere,
    spark: SparkSession,
    noida: NoidaBroker,
    corpus: EmbeddedCluster,
    events: Path,
    tmp_path: Path,
) -> None:
    topic, copied = noida.create_topic(partitions=1), "lineage-copied"
    spark.range(7).write.parquet(str(tmp_path / "rows"))
    rows = ["--input", str(tmp_path / "rows"), "--quiet"]
    modern, old = f"{noida.bootstrap_servers}", corpus.zookeeper_connect.partition(",")[0].partition("/")[0]
    to_modern = f"--option=kafka.bootstrap.servers={modern}"
    to_old = f"--option=zookeeper.connect={corpus.zookeeper_connect}"
    with sending_lineage(spark):
        assert run_here("publish", *rows, "--topic", topic, to_modern)[0] == 0
        assert run_here("publish", *rows, "--topic", copied, to_old)[0] == 0
        output = ["--output", str(tmp_path / "out"), "--quiet"]
        assert run_here("ingest", to_modern, "--topic", topic, *output)[0] == 0
        migrated = ["--source-option", f"zookeeper.connect={corpus.zookeeper_connect}", "--topic", copied]
        migrated += [f"--target-option=kafka.bootstrap.servers={modern}", "--create-topics", "--quiet"]
        assert run_here("migrate", *migrated, "--state", str(tmp_path / "state"))[0] == 0
        broken = run_here("publish", *rows, "--topic", "a/b", to_modern)
        assert broken[0] != 0
    result = runs(events)
    ends = ["START", "COMPLETE"]
    at_modern, at_old = f"kafka://{modern}", f"kafka://{old}"
    assert result["migrate"] == (ends, [(at_old, copied, 7)], [(at_modern, copied, 7)])
    ingested = [value for name, value in result.items() if topic in name]
    assert (ends, [(at_modern, topic, 7)], []) in ingested
    assert result["publish"][0] == [*ends, *ends, "START", "FAIL"]


def test_a_job_without_openlineages_library_goes_on(
    spark: SparkSession, events: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    monkeypatch.delitem(sys.modules, "spark_kafkawire.lineage", raising=False)
    monkeypatch.delattr(spark_kafkawire, "lineage", raising=False)
    with sending_lineage(spark):
        pass
    assert "the job sends no lineage" in caplog.text
    assert not events.exists()
