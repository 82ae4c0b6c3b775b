"""`jobs/migrate.py` with log directories as its source: the brokers are gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.golden import CORPUS
from tests.support.noida import NoidaBroker

from ..arguments import RunHere


def test_a_dead_cluster_migrates_to_a_live_one(run_here: RunHere, noida: NoidaBroker, tmp_path: Path) -> None:
    paths = [shutil.copytree(CORPUS / name, tmp_path / name) for name in ("broker0", "broker1")]
    # A broker that was killed while it wrote.
    torn = paths[0] / f"{GZIP_TOPIC}-0" / "00000000000000000000.kafka"
    whole = torn.read_bytes()
    torn.write_bytes(whole + whole[:100])
    arguments = [
        f"--source-option=paths={json.dumps([str(path) for path in paths])}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--topic", GZIP_TOPIC, "--map", f"{GZIP_TOPIC}=of-a-dead-cluster"),
        *("--state", f"{tmp_path}/state", "--create-topics", "--json"),
    ]
    code, out, _ = run_here("migrate", *arguments)
    summary = json.loads(out)
    messages = sum(count for count, _ in recorded())
    size = sum(each["log_bytes"] for each in partitions_of())
    assert (code, summary["messages"], summary["bytes"], summary["failed"]) == (0, messages, size, [])
    ends = [librdkafka.offsets(noida.bootstrap_servers, "of-a-dead-cluster", each)[1] for each in range(6)]
    assert sum(ends) == messages
    code, out, _ = run_here("migrate", *arguments)
    assert (code, json.loads(out)["messages"]) == (0, 0)
