"""A broker that lies about one thing: exact rows or one of our errors, whatever it says."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.protocol import modern, proposal, v07
from tests.support.short_and_long import short_and_long

from . import contradictions
from .exchanges import EXCHANGES
from .lies import (
    EXACT,
    NOT_KNOWN,
    NOT_TO_BE_KNOWN,
    REFUSED,
    NotKnown,
    judged,
    lies,
    named,
    outcome,
    report,
    run,
    steps,
)

SEED: Final = 1
#: Lies that were believed once, also where what they came with was right.
BELIEVED_ONCE: Final = (
    "read Fetch newest responses.0.topic_id: another, always",
    "read Fetch 12 responses.0.topic: another topic, always",
    "read Fetch newest responses.0.partitions: first twice, always",
    "read Fetch newest responses.0.partitions.0.records: first batch twice, always",
    "read Fetch newest responses.0.partitions.0.records: batches reversed, always",
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


@pytest.mark.parametrize("name", BELIEVED_ONCE)
def test_what_was_believed_once_is_refused(name: str) -> None:
    assert report(name) == REFUSED


@pytest.mark.parametrize("known", NOT_TO_BE_KNOWN, ids=lambda known: known.example)
def test_what_no_client_can_know_is_still_not_known(known: NotKnown) -> None:
    lie = contradictions.named(known.example) if " and " in known.example else named(known.example)
    assert known.covers(lie)
    # On a busy machine an exchange may end by its deadlines.
    assert outcome(lie, timeout_s=10.0)[0] == "wrong, and taken for right"
    assert judged(lie)[0] in (NOT_KNOWN, REFUSED)


def test_every_api_is_lied_about_in_every_field_of_its_last_version() -> None:
    assert {api for exchange in EXCHANGES for api in exchange.apis} == {
        *modern.DIALECT.apis,
        *proposal.DIALECT.apis,
        *(api for api in v07.DIALECT.apis if api.response is not None),
    }
    for exchange, api, version in steps():
        if version == api.versions.max:
            reported = {lie.path for lie in lies(exchange, api, version)}
            fields = {name for name, _, _ in api.response_codec(version).members()}
            assert fields <= {path[0] for path in reported if path}, f"{exchange.name} {api.name}"


@short_and_long("duration_s", short=8.0, long=60.0)
def test_lies_end_in_exact_rows_or_errors_of_ours(duration_s: float) -> None:
    """``make chaos`` goes on with them."""
    came = run(SEED, duration_s)
    assert came[EXACT] > 0
    assert came[REFUSED] > 0
