"""The same streams by ``format("kafka")`` and by ``format("kafkawire")``: Spark's own is the judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.planner.stream_offsets import ID_MARK, PART_MARK, PIN_MARK

from .apache_kafka import ApacheKafka
from .needs import needed_connector
from .stream_scenarios import BY_NAME, SCENARIOS, TAKEN_OVER, Quirk
from .takeovers import STORIES
from .versions import newest

ROOT: Final = Path(__file__).parents[2]
_TIMEOUT_S: Final = 1100.0
Answer = dict[str, Any]

pytestmark = [newest, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def answers(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all scenarios and stories, in one Spark that has both connectors."""
    jars = needed_connector()
    questions = {"servers": kafka.bootstrap_servers(), "jars": jars}
    questions |= {"scenarios": list(BY_NAME), "stories": list(STORIES)}
    found = tmp_path_factory.mktemp("streams") / "answers.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.side_by_side_streams", str(found)],
        cwd=ROOT,
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answered: dict[str, Any] = json.loads(found.read_text())
    return answered


def _of_kind(answers: dict[str, Any], kind: str, name: str) -> Any:
    found = answers[kind][name]
    assert not isinstance(found, dict) or "broken" not in found, found["broken"]
    return found


def _without_blanks(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


def _without_mark(text: str) -> str:
    *others, mark = json.loads(text).items()
    assert mark in ((PIN_MARK, {}), (PART_MARK, {}))
    return json.dumps(dict(others))


def _without_ids(text: str) -> str:
    """The offsets without the id of each topic, which Spark's own connector does not keep."""
    written = json.loads(text)
    ids = [key for key in written if key.startswith(ID_MARK)]
    assert [key.removeprefix(ID_MARK).partition(" ")[0] for key in ids] == sorted(
        key for key, partitions in written.items() if partitions
    )
    return json.dumps({key: partitions for key, partitions in written.items() if key not in ids})


@pytest.mark.parametrize("name", BY_NAME)
def test_both_connectors_run_the_same_batches_and_write_down_the_same_offsets(
    answers: dict[str, Any], name: str
) -> None:
    scenario, played = BY_NAME[name], _of_kind(answers, "scenarios", name)
    theirs, ours = played["kafka"], played["kafkawire"]
    assert (theirs["error"] is not None) == scenario.fails, theirs["error"]
    assert (ours["error"] is not None) == scenario.fails, ours["error"]
    offsets = [*map(_without_ids, ours["offsets"])]
    if scenario.quirk is Quirk.MARK:
        offsets = [_without_mark(offsets[0]), *offsets[1:]]
    if scenario.quirk is Quirk.FAILS_SOONER:
        *reported, _ = theirs["offsets"]
        theirs = {**theirs, "offsets": reported}
    if scenario.quirk is Quirk.LEAVES_FEW:
        left = len(theirs["batches"])
        assert left < len(ours["batches"])
        ours, offsets = {**ours, "batches": ours["batches"][:left]}, offsets[:left]
    assert ours["batches"] == theirs["batches"]
    assert [*map(_without_blanks, offsets)] == theirs["offsets"]
    assert any(theirs["batches"]) or scenario.fails


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS if each.fails])
def test_what_fails_says_so_in_an_error_of_ours(answers: dict[str, Any], name: str) -> None:
    error = _of_kind(answers, "scenarios", name)["kafkawire"]["error"]
    assert "spark_kafkawire.errors." in error, error


@pytest.mark.parametrize("name", TAKEN_OVER)
def test_a_query_that_goes_from_one_to_the_other_reads_each_record_once(
    answers: dict[str, Any], name: str
) -> None:
    played = _of_kind(answers, "scenarios", name)
    alone, in_turn = (
        [row for batch in played[who]["batches"] for row in batch] for who in ("kafka", "in turn")
    )
    assert (played["in turn"]["error"] is not None) == BY_NAME[name].fails, played["in turn"]["error"]
    assert sorted(in_turn) == sorted(alone)
    in_turn_end, alone_end = (json.loads(played[who]["offsets"][-1]) for who in ("in turn", "kafka"))
    assert {key: each for key, each in in_turn_end.items() if not key.startswith(ID_MARK)} == alone_end


def test_parquet_has_each_record_once_after_three_takeovers(answers: dict[str, Any]) -> None:
    rows = _of_kind(answers, "stories", "parquet")
    assert rows == [[partition, offset] for partition in range(2) for offset in range(20)]


def test_state_is_taken_over(answers: dict[str, Any]) -> None:
    assert _of_kind(answers, "stories", "state") == [["0", "1", "2", "3", "4"], ["5"], ["6"]]


def test_sinks_are_swapped_with_sources_or_without_them(answers: dict[str, Any]) -> None:
    *runs, again, once_more = _of_kind(answers, "stories", "sinks")
    assert runs == [list(range(3 * number)) for number in range(1, 6)]
    last = runs[-1][-1]
    assert again == [*runs[-1], last]  # the batch that was not done is written again, and no other one
    assert once_more == [*again, last]


def test_windows_and_the_watermark_that_closes_them_are_taken_over(answers: dict[str, Any]) -> None:
    counted = _of_kind(answers, "stories", "aggregate")
    assert counted == [
        {"0": 5, "5": 1},
        {"5": 5, "10": 2},
        {"10": 5},
        {"15": 3},
        {"15": 5, "20": 1},
    ]


def test_a_union_of_both_connectors_reads_each_record_once_whichever_reads_which(
    answers: dict[str, Any],
) -> None:
    rows = _of_kind(answers, "stories", "union")
    assert rows == [["", offset] for offset in range(12)] + [["-b", offset] for offset in range(8)]


def test_a_batch_that_one_has_not_finished_is_finished_by_the_other(answers: dict[str, Any]) -> None:
    first, second, third = _of_kind(answers, "stories", "crashed")
    assert [each["error"] for each in (first, second, third)] == [None] * 3
    assert first["batches"] == {"0": [0, 1, 2], "1": [3, 4]}
    assert second["batches"] == {"1": [3, 4], "2": [5, 6, 7], "3": [8, 9]}
    assert third["batches"] == {"3": [8, 9], "4": [10, 11, 12], "5": [13, 14]}


def test_a_first_batch_of_sparks_own_is_an_error_until_its_start_is_given(answers: dict[str, Any]) -> None:
    theirs, refused, given = _of_kind(answers, "stories", "first-of-kafka")
    assert theirs == {"batches": {"0": [3, 4]}, "error": None}
    assert refused["batches"] == {}
    assert 'OptionError: checkpointLocation: format("kafka") planned the first batch' in refused["error"]
    assert given == {"batches": {"0": [3, 4], "1": []}, "error": None}


def test_a_first_batch_of_ours_is_an_error_of_sparks_own_until_its_start_is_written(
    answers: dict[str, Any],
) -> None:
    ours, refused, again = _of_kind(answers, "stories", "first-of-kafkawire")
    assert ours == {"batches": {"0": []}, "error": None}
    assert refused["batches"] == {}
    assert "offset was changed from 8 to 5" in refused["error"]
    assert again == {"batches": {"0": [], "1": [5, 6, 7]}, "error": None}


def test_a_recreated_topic_is_found_after_takeovers_and_read_from_its_first_record(
    answers: dict[str, Any],
) -> None:
    story = _of_kind(answers, "stories", "recreated")
    *taken_over, first, second, lenient, last = story["runs"]
    assert [each["error"] for each in (*taken_over, lenient, last)] == [None] * 6
    assert [_rows(each) for each in taken_over] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    for each in (first, second):
        assert each["batches"] == {}
        assert "the topic story-recreated was deleted and recreated: its id was " in each["error"]
    assert _rows(lenient) == list(range(20))
    assert _rows(last) == [20, 21]
    kept = [any(key.startswith(ID_MARK) for key in end) for end in story["ends"]]
    assert kept == [False, True, False, True, True, False]


def _rows(run: Answer) -> list[int]:
    return [offset for offsets in run["batches"].values() for offset in offsets]
