"""``jobs/ingest.py`` through spark-submit, with only the zip shipped, and its command line."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster

from ..submitting import ROOT, environment, make_zip, submit, submit_command
from .test_killed import MANIFEST, TOPIC, values_sha256

SCRIPT: Final = ROOT / "jobs" / "ingest.py"


def test_a_submitted_run_that_is_killed_is_finished_by_the_next_one(
    spark: SparkSession, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    package = make_zip(tmp_path)
    options = tmp_path / "cluster.properties"
    options.write_text(f"zookeeper.connect = {corpus.zookeeper_connect}\n")
    output = tmp_path / "out"
    arguments = [
        "--options-file",
        str(options),
        "--topic",
        TOPIC,
        "--output",
        str(output),
        "--group",
        "nightly",
    ]

    with subprocess.Popen(
        submit_command(package, SCRIPT, *arguments),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as killed:
        assert killed.stderr is not None
        assert any(line.startswith("ingest: batch 0:") for line in killed.stderr)
        os.killpg(killed.pid, signal.SIGKILL)
    assert (output / "_kafkawire" / "0.planned.json").exists()
    assert not (output / "batch=0").exists()

    done = submit(package, tmp_path, SCRIPT, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [(batch["batch"], batch["messages"]) for batch in summary["batches"]] == [(0, 15917)]
    rows = spark.read.parquet(str(output)).collect()
    for log in MANIFEST:
        own = [row for row in rows if (row.broker, row.partition) == (log["broker"], log["partition"])]
        own.sort(key=lambda row: (row["offset"], row["index"]))
        assert values_sha256(bytes(row.value) for row in own) == log["values_sha256"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ingest_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD: Final = ("--topic", "t", "--output", "out", "--option", "kafka.bootstrap.servers=127.0.0.1:1")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--output", "o"), "one of the arguments --topic --topic-pattern is required; --help"),
        (("--topic", "t"), "the following arguments are required: --output; --help"),
        ((*GOOD, "--topic-pattern", "t"), "argument --topic-pattern: not allowed with argument --topic"),
        (("--topic-pattern", "(", *GOOD[2:]), "option subscribePattern: '(' is not a regular expression"),
        (("--topic", ",", *GOOD[2:]), "option subscribe: ',' is not a topic or a list of topics"),
        ((*GOOD, "--output", ""), "argument --output: '' is not a path"),
        (
            (*GOOD, "--starting", "yesterday"),
            "argument --starting: 'yesterday' is not earliest, latest, a time",
        ),
        ((*GOOD, "--starting", '{"t":'), "option startingOffsets: '{\"t\":' is not of the form earliest or"),
        ((*GOOD, "--max-bytes", "0"), "argument --max-bytes: '0' is not a whole number above zero"),
        ((*GOOD, "--max-bytes", "9"), "argument --max-bytes: these brokers count records; use --max-records"),
        ((*GOOD, "--max-records", "many"), "argument --max-records: 'many' is not a whole number above zero"),
        (
            (*GOOD, "--group", "g", "--checkpoint", "c"),
            "argument --checkpoint: not allowed with argument --group",
        ),
        ((*GOOD, "--group", " "), "argument --group: ' ' is not the name of a consumer group"),
        ((*GOOD, "--checkpoint", ""), "argument --checkpoint: '' is not a path"),
        ((*GOOD, "--format", ""), "argument --format: '' is not a format of Spark"),
        ((*GOOD, "--format-option", "compression"), "argument --format-option: number 1 is not KEY=VALUE"),
        ((*GOOD, "--decode", "avro"), "argument --decode: invalid choice: 'avro'"),
        ((*GOOD, "--schema", "a int"), "argument --schema goes with --decode json"),
        ((*GOOD, "--partition-by", "=x"), "argument --partition-by: '=x' is not NAME or NAME=SQL"),
        ((*GOOD, "--partition-by", "batch"), "argument --partition-by: 'batch' is the column of the runs"),
        ((*GOOD[:4], "--option", "x"), "argument --option: number 1 is not KEY=VALUE"),
        ((*GOOD[:4],), "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and"),
        ((*GOOD, "--options-file", "/no/such"), "argument --options-file: /no/such: No such file"),
        ((*GOOD, "--json=1"), "argument --json: ignored explicit argument '1'"),
        ((*GOOD, "--quiet=1"), "argument --quiet: ignored explicit argument '1'"),
    ],
)
def test_wrong_usage_is_one_line_before_spark_starts(
    argv: tuple[str, ...],
    line: str,
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script, "job_session", None)
    monkeypatch.setattr("sys.argv", ["ingest.py", *argv])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(script.main())
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ingest: {line}")
    assert err.count("\n") == 1


def test_help_tells_every_argument(script: ModuleType) -> None:
    told = script.make_parser().format_help()
    for action in script.make_parser()._actions:
        assert action.help, action.option_strings
        assert action.option_strings[-1] in told
