"""What a peer sends back of a secret is shown nowhere; what has nothing to do with one is."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_kafkawire import secrecy
from spark_kafkawire.errors import LOG, KafkaWireError, said
from spark_kafkawire.secrecy import HIDDEN, holds_secret, keep_secret, without_secrets

SECRET = "correct-horse+battery/staple"


@pytest.fixture(autouse=True)
def _no_other_secrets() -> Iterator[None]:
    """What other tests have logged in with counts neither here nor afterwards."""
    others = dict(secrecy._kept)
    secrecy._kept.clear()
    yield
    secrecy._kept.clear()
    secrecy._kept.update(others)


def test_without_any_secret_all_is_shown() -> None:
    assert not holds_secret(SECRET)
    assert said(SECRET) == f"'{SECRET}'"
    keep_secret(None, "")
    assert said(SECRET) == f"'{SECRET}'"


@pytest.mark.parametrize(
    "prose",
    [
        "Authentication failed: Invalid username or password",
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
        "Client SASL mechanism 'PLAIN' not enabled in the server, enabled mechanisms are [SCRAM-SHA-256]",
        "Topic 'orders' is marked for deletion (%20, &amp; and \\u0041 included), see https://host/path?a=b",
    ],
)
def test_what_brokers_say_is_shown(prose: str) -> None:
    keep_secret(SECRET, "hunter2!", "0f8fad5b-d9cb-469f-a165-70867728950e")
    assert said(prose) == f"'{prose}'"


@given(st.text(min_size=1, max_size=40), st.text(max_size=20), st.text(max_size=20))
# A backslash of its own, before a sign that JSON escapes by another one.
@example("\\\U000e6533", "", "")
# What might be the bytes of a sign in UTF-8.
@example("\xc2\x80", "", "")
def test_a_secret_inside_of_any_text_is_found(secret: str, before: str, after: str) -> None:
    secrecy._kept.clear()
    keep_secret(secret)
    assert said(before + secret + after) == HIDDEN
    assert said(json.dumps(before + secret + after)) == HIDDEN


@given(st.text(min_size=8, max_size=40).filter(lambda text: HIDDEN not in text), st.text(max_size=20))
def test_no_error_holds_a_whole_secret_wherever_it_came_from(secret: str, before: str) -> None:
    secrecy._kept.clear()
    keep_secret(secret)
    message = str(KafkaWireError(f"broker 1 ({before}{secret}:9092): {secret!r} {secret!a}: gone"))
    assert secret not in message.replace(HIDDEN, "\0")
    assert ascii(secret)[1:-1] not in message.replace(HIDDEN, "\0")


def test_a_short_secret_leaves_names_alone_and_prose_unsaid() -> None:
    keep_secret("kafka")
    assert str(KafkaWireError("broker 1 (kafka1:9092): gone")) == "broker 1 (kafka1:9092): gone"
    assert said("kafka is down") == HIDDEN


def test_no_line_of_the_log_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    keep_secret(SECRET)
    with caplog.at_level(logging.DEBUG, LOG.name):
        LOG.debug("topic %s\nof %d", SECRET, 5)
    [record] = caplog.records
    assert record.getMessage() == f"topic {HIDDEN}\\nof 5"


def test_secrets_of_old_make_room_for_new_ones() -> None:
    keep_secret(*(f"secret number {number:04}" for number in range(1000)))
    assert len(secrecy._kept) == secrecy.KEPT_COUNT_MAX
    assert without_secrets("secret number 0999") == HIDDEN
    keep_secret("secret number 0940")
    assert list(secrecy._kept)[-1] == "secret number 0940"


def test_looking_takes_no_longer_than_a_moment_whatever_a_peer_sends() -> None:
    keep_secret(*(f"{number:04}" * 1000 for number in range(secrecy.KEPT_COUNT_MAX)))
    began_s = time.monotonic()
    for prose in ("A" * 1_000_000, "\\" * 1_000_000, "%41" * 300_000, "&#65;" * 200_000, "41 " * 300_000):
        assert not holds_secret(prose)
        assert said(prose) != HIDDEN
    assert time.monotonic() - began_s < 60
