"""Responses in which two numbers are changed: exact rows or one of our errors, whatever the numbers are."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.protocol import modern, v07
from tests.support.short_and_long import short_and_long

from .answers import self_contradiction
from .contradictions import APIS, contradictions, places, report, run
from .lies import EXACT, REFUSED

SEED: Final = 1
_LOG: Final = "responses.0.partitions.0"
_END: Final = f"{_LOG}.high_watermark"
_FIRST, _SECOND = (f"{_LOG}.records.{index}.base_offset" for index in (0, 1))
_ABORTED: Final = f"{_LOG}.aborted_transactions.0"
#: What was believed once: fewer rows than there are, or aborted ones, and success.
BELIEVED_ONCE: Final = (
    f"read Fetch newest {_SECOND} and {_END}: bit 40, always",
    f"read Fetch newest {_SECOND} and {_END}: the second twice, always",
    f"read Fetch newest {_SECOND} and {_END}: both 2^40 more, always",
    f"read Fetch newest {_SECOND} and {_END}: both one more, always",
    f"read Fetch newest {_FIRST} and {_SECOND}: both 2^40 more, always",
    f"read Fetch 4 {_SECOND} and {_LOG}.records.1.leader_epoch: both one more, always",
    f"read what compaction left Fetch newest {_FIRST} and {_LOG}.last_stable_offset: 2^40 more, always",
    f"read what compaction left Fetch newest {_FIRST} and {_END}: both 2^40 more, always",
    f"read what is committed Fetch newest {_ABORTED}.first_offset and {_LOG}.log_start_offset: "
    "one more, and one less, always",
    f"read what is committed Fetch newest {_ABORTED}.producer_id and {_END}: bit 1, always",
    "read 0.7 OFFSETS 0 offsets.2 and offsets.1: the second twice, always",
)


@pytest.mark.parametrize("name", BELIEVED_ONCE)
def test_what_was_believed_once_is_refused_or_asked_again(name: str) -> None:
    assert report(name) in (EXACT, REFUSED)


def test_each_pair_of_numbers_of_each_version_is_told_of() -> None:
    there = {(api, version) for _, api, version in places()}
    assert {api for api, _ in there} == set(APIS)
    for api in APIS:
        assert {version for each, version in there if each is api} >= {api.versions.max}
    [read] = [
        place
        for place in places()
        if place[0].name == "read" and place[1:] == (modern.FETCH, modern.FETCH.versions.max)
    ]
    reported = {each.names for each in contradictions(*read)}
    for names in (
        {"high_watermark", "base_offset"},
        {"last_stable_offset", "base_offset"},
        {"log_start_offset", "base_offset"},
        {"high_watermark", "last_stable_offset"},
        {"base_offset"},
        {"base_offset", "leader_epoch"},
    ):
        assert frozenset(names) in reported


@pytest.mark.parametrize(
    ("offsets", "start", "fault"),
    [
        ([40, 14], [14], ""),
        ([40, 40, 14], [14], ""),
        ([14], [42], "starts at"),
        ([40, 14, 14], [14], "two segments"),
        ([14, 40], [40], "newest first"),
        ([40, 14], [14, 14], "another count"),
        ([40, -1], [-1], "below 0"),
    ],
)
def test_the_judge_finds_what_answers_prove_of_themselves(
    offsets: list[int], start: list[int], fault: str
) -> None:
    said = [
        (v07.OffsetsRequest("t", 0, v07.LATEST_TIME, 100), v07.OffsetsResponse(0, tuple(offsets))),
        (v07.OffsetsRequest("t", 0, v07.EARLIEST_TIME, 1), v07.OffsetsResponse(0, tuple(start))),
    ]
    found = self_contradiction(v07.OFFSETS, said)
    assert fault in found
    assert bool(fault) == bool(found)


@short_and_long("duration_s", short=10.0, long=120.0)
def test_contradictions_end_in_exact_rows_or_errors_of_ours(duration_s: float) -> None:
    """``make chaos`` goes on with them."""
    came = run(SEED, duration_s)
    assert came[EXACT] > 0
    assert came[REFUSED] > 0
