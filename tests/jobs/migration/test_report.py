"""The summary of a migration."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs.migration.report import report

FINE = {
    "source": "t 0-0",
    "target": "new 0",
    "messages": 1200,
    "sha256": "ab" * 32,
    "target_messages": 1200,
    "target_sha256": "ab" * 32,
    "equal": True,
}
WRONG = {
    **FINE,
    "source": "t 0-1",
    "target": "new 1",
    "target_messages": 7,
    "target_sha256": "cd" * 32,
    "equal": False,
}
PLANNED = {"source": "t 0-0", "target": "new 0", "start_offset": 5, "stop_offset": 90, "bytes": 85}


def summary(*partitions: dict[str, Any]) -> dict[str, Any]:
    failed = [each["source"] for each in partitions if each.get("equal") is False]
    return {"logs": len(partitions), "partitions": list(partitions), "failed": failed, "data_loss": []}


def test_a_table_tells_of_each_partition_and_the_summary_of_all() -> None:
    out = io.StringIO()
    assert report(summary(FINE), out, as_json=False) == {"logs": 1}
    assert out.getvalue() == "t 0-0  ->  new 0  1,200 messages  sha256 abababababab  equal\n"


def test_a_table_tells_what_could_only_be_counted() -> None:
    out = io.StringIO()
    report(summary({**FINE, "deleted_since": 1000}), out, as_json=False)
    assert out.getvalue().endswith("  equal except for 1,000 that the source has deleted since\n")


def test_a_plan_tells_offsets_and_bytes() -> None:
    out = io.StringIO()
    report(summary(PLANNED), out, as_json=False)
    assert out.getvalue() == "t 0-0  ->  new 0  5 to 90  85 bytes\n"


def test_as_json_all_is_left_to_the_summary() -> None:
    out = io.StringIO()
    assert report(summary(FINE), out, as_json=True) == summary(FINE)
    assert out.getvalue() == ""


def test_what_is_not_equal_is_told_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DeliveryError) as caught:
        report(summary(FINE, WRONG), io.StringIO(), as_json=True)
    assert str(caught.value) == (
        "verification failed for 1 of 2 partitions: t 0-1 has 1,200 messages (sha256 abababababab), new 1 "
        "has 7 messages (sha256 cdcdcdcdcdcd); copy to a new topic with an empty state directory"
    )
    assert json.loads(capsys.readouterr().out) == summary(FINE, WRONG)


def test_a_data_loss_stays_in_the_summary() -> None:
    lossy = {**summary(FINE), "data_loss": ["t 0-0: 50 bytes"]}
    assert report(lossy, io.StringIO(), as_json=False)["data_loss"] == ["t 0-0: 50 bytes"]
