"""A broker that lies about one thing, or two: exact rows or one of our errors, whatever it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from spark_kafkawire.protocol import modern, proposal, v07
from spark_kafkawire.protocol.api import Api
from tests.support.short_and_long import short_and_long

from .exchanges import EXCHANGES, Exchange
from .lies import (
    APIS_OF_PAIRS,
    NOT_KNOWN,
    REFUSED,
    STEPS,
    STEPS_OF_PAIRS,
    WRONG,
    Lie,
    contradiction,
    honestly,
    judged,
    lie,
    named,
    outcome,
    pairs,
    parts,
)
from .not_known import NOT_TO_BE_KNOWN, NotKnown, self_contradiction
from .operation import EXACT, counted
from .shapes import FRAMES

SEED: Final = 1
_LOG: Final = "responses.0.partitions.0"
_END: Final = f"{_LOG}.high_watermark"
_FIRST, _SECOND = (f"{_LOG}.records.{index}.base_offset" for index in (0, 1))
_ABORTED: Final = f"{_LOG}.aborted_transactions.0"
#: Lies that were believed once, also where what they came with was right.
BELIEVED_ONCE: Final = (
    "read Fetch newest responses.0.topic_id: another, always",
    "read Fetch 12 responses.0.topic: another topic, always",
    "read Fetch newest responses.0.partitions: first twice, always",
    f"read Fetch newest {_LOG}.records: first batch twice, always",
    f"read Fetch newest {_LOG}.records: batches reversed, always",
    "read Metadata newest brokers.0.port: max, always",
    "read Metadata newest brokers.0.port: 0, always",
    "read Metadata newest topics: one more, always",
    "read a pattern Metadata newest topics.0.error_code: code 5, always",
    "read a pattern Metadata newest topics.0.error_code: code 17, always",
    "write InitProducerId 5 producer_id: -1, always",
    "write InitProducerId 5 producer_epoch: -1, always",
    "write Produce newest responses: first twice, always",
    "commit FindCoordinator newest coordinators.0.port: 0, always",
)
#: The same of two numbers: fewer rows than there are, or aborted ones, and success.
PAIRS_BELIEVED_ONCE: Final = (
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


@pytest.mark.parametrize("name", [*BELIEVED_ONCE, *PAIRS_BELIEVED_ONCE])
def test_what_was_believed_once_is_refused_and_of_pairs_may_be_asked_again(name: str) -> None:
    assert judged(named(name))[0] in ((EXACT, REFUSED) if name in PAIRS_BELIEVED_ONCE else (REFUSED,))


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(item, id=item.example, marks=pytest.mark.nightly if number % 6 else ())
        for number, item in enumerate(NOT_TO_BE_KNOWN)
    ],
)
def test_what_no_client_can_know_is_still_not_known(known: NotKnown) -> None:
    told = named(known.example)
    assert known.covers(told)
    # On a busy machine an exchange may end by its deadlines.
    assert outcome(told, timeout_s=10.0)[0] == WRONG
    assert judged(told)[0] in (NOT_KNOWN, REFUSED)


def test_every_api_is_lied_about_in_every_field_of_its_last_version() -> None:
    assert {api for exchange in EXCHANGES for api in exchange.apis} == {
        *modern.DIALECT.apis,
        *proposal.DIALECT.apis,
        *(api for api in v07.DIALECT.apis if api.response is not None),
    }
    for step in STEPS:
        exchange, api, version = step
        if version == exchange.versions(api)[-1]:
            fields = {name for name, _, _ in api.response_codec(version).members()}
            assert fields <= {paths[0][0] for paths in parts(step) if paths}, f"{exchange.name} {api.name}"


def test_lie_about_each_pair_of_numbers() -> None:
    newest = {step[1:]: step for step in STEPS_OF_PAIRS if step[2] == step[1].versions.max}
    assert {api for api, _ in newest} == set(APIS_OF_PAIRS)
    [read] = [step for step in STEPS_OF_PAIRS if step[0].name == "read" and step[1:] == _NEWEST_FETCH]
    reported = {Lie(read, paths, "").names for paths in pairs(read)}
    ends = ("high_watermark", "last_stable_offset", "log_start_offset")
    of_batches = (frozenset({"base_offset", item}) for item in (*ends, "leader_epoch", "base_offset"))
    assert reported.issuperset((*of_batches, frozenset(ends[:2])))


_NEWEST_FETCH: Final = (modern.FETCH, modern.FETCH.versions.max)


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
    result = self_contradiction(v07.OFFSETS, said)
    assert fault in result
    assert bool(fault) == bool(result)


@short_and_long("count", short=25, long=1000)
@pytest.mark.parametrize("told", [lie, contradiction])
def test_lies_end_in_exact_rows_or_errors_of_ours(
    told: Callable[[int, int], Counter[str]], count: int
) -> None:
    """``make chaos`` goes on with them."""
    came = counted(partial(told, SEED), count)
    assert came[EXACT] > 0
    assert came[REFUSED] > 0


#: Kinds that no client takes for an answer, whatever the bytes are.
NO_ANSWERS: Final = [
    kind for kind in FRAMES if kind.startswith(("response to ", "length ")) and "one" not in kind.split()
]


@short_and_long("step", short=97, long=1)
@pytest.mark.parametrize(
    ("exchange", "api"),
    [(item, api) for item in EXCHANGES if item.name in ("read", "write", "report") for api in item.apis],
    ids=lambda item: item.name,
)
def test_a_response_that_breaks_off_or_lies_about_its_length_is_an_error(
    exchange: Exchange, api: Api, step: int
) -> None:
    told = Lie((exchange, api, exchange.versions(api)[-1]), (), "")
    honest = honestly(told.step)[1][-1]
    places = range(0, len(told.frame(honest, honest.message)), step)
    broken = [f"{kind} {pos}" for kind in ("cut", "short") for pos in places]
    for kind in (*broken, "silent 0", "silent 3", "silent -1", *NO_ANSWERS):
        came = judged(replace(told, kind=kind))[0]
        # A broker that does not name its versions may be older than the question.
        assert came == REFUSED or (api is modern.API_VERSIONS and came == EXACT), kind
    for pos in places:
        assert judged(replace(told, kind=f"changed {pos}"))[0] in (EXACT, REFUSED, NOT_KNOWN)
