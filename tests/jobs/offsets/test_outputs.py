"""All outputs of one survey of each generation, byte for byte: tables, JSON, complaints and the page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from spark_kafkawire.jobs.offsets.page import page
from spark_kafkawire.jobs.offsets.report import complaints, report_json
from spark_kafkawire.jobs.offsets.run import Surveyed
from spark_kafkawire.jobs.offsets.terminal import print_report
from spark_kafkawire.model import Generation, Leader, PartitionBounds, RecordTimes, TopicPartition

from .reports import BROKERS, HOSTILE, TAKEN_MS

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "offsets"
MODERN: Final = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition(HOSTILE, 0)]
OLD: Final = [TopicPartition("orders", 1, 0), TopicPartition("orders", 0, 1), TopicPartition(HOSTILE, 0, 0)]
#: The partition that no broker serves.
UNSERVED: Final = {
    Generation.MODERN: TopicPartition("orders", 2),
    Generation.V07: TopicPartition("orders", 1, 1),
}
TIMES: Final = RecordTimes(1_700_000_000_000, 1_700_000_060_999), RecordTimes(1_699_999_000_000, -2)
WRITES: Final = {"daily\x1b": ["daily-0", "daily-driver"]}


def surveyed(generation: Generation) -> Surveyed:
    """A cluster with partitions that a group has read to a place before, within and beyond its log."""
    logs = MODERN if generation is Generation.MODERN else OLD
    ends = (1_000, 2_048), (0, 3_000_000), (7, 7)
    starts = (1_000, 1_500), (0,), ()
    is_old = generation is Generation.V07
    bounds = {
        tp: PartitionBounds(tp, *ends[at], starts[at] if is_old else None) for at, tp in enumerate(logs)
    }
    elsewhere = TopicPartition("orders", 9, 4 if is_old else None)
    offsets = {
        "etl": dict(zip([*logs, UNSERVED[generation]], (990, 2_000_000, 8, 5), strict=True)),
        "a new\n": {elsewhere: 3},
        "all": {logs[1]: 3_000_000},
        "none": {},
    }
    cluster: Any = SimpleNamespace(
        groups=SimpleNamespace(committed=lambda group: offsets[group], texts=lambda _: []),
        known_leaders=lambda _: {tp: Leader(BROKERS[at % 2]) for at, tp in enumerate(logs)},
        bounds=lambda partitions: {tp: bounds[tp] for tp in partitions},
        record_times=lambda _: {} if is_old else dict(zip(logs, TIMES, strict=False)),
        brokers=lambda: BROKERS,
    )
    location = "zookeeper.connect=h:2181" if is_old else "kafka.bootstrap.servers=h0:9092"
    partitions = tuple(sorted([*logs, UNSERVED[generation]]))
    return Surveyed(location, generation, cluster, partitions, has_all_topics=True)


@pytest.mark.parametrize("generation", list(Generation))
def test_outputs_are_as_they_were(generation: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = ("etl", "a new\n", "all", "none")
    report = surveyed(generation).report(groups, lambda _: None, clock=lambda: TAKEN_MS / 1000)
    report = replace(report, writes=WRITES if generation is Generation.MODERN else {})
    file = io.StringIO()
    print_report(report, file)
    monkeypatch.setattr("spark_kafkawire.jobs.offsets.terminal.PARTITIONS_LISTED_MAX", 1)
    print_report(report, file)
    body = page(report).partition("<body>")[2].partition("</main>")[0]
    outputs = {
        "txt": "\n".join([file.getvalue(), *complaints(report), ""]),
        "json": json.dumps(report_json(report)).replace("}, {", "},\n{") + "\n",
        "html": re.sub("<(?=tr|section|article|tbody)", "\n<", body),
    }
    for suffix, text in outputs.items():
        assert text == (GOLDEN / f"{generation.name.lower()}.{suffix}").read_text("utf-8")
