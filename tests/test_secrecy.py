"""Secrets in text of peers: no message shows them, and other text is shown."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire import secrecy
from spark_kafkawire.errors import LOG, PROSE_SIZE_MAX, KafkaWireError, peer_text, printable, quote
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.secrecy import HIDDEN, WITHHELD, keep_secret, without_secrets
from tests.support.cases import for_each

SECRET = "correct-horse+battery/staple"


@pytest.fixture(autouse=True)
def _no_other_secrets() -> Iterator[None]:
    """Forget the secrets of other tests during a test, and restore them afterwards."""
    others = dict(secrecy._kept)
    secrecy._kept.clear()
    yield
    secrecy._kept.clear()
    secrecy._kept.update(others)


def test_without_any_secret_all_is_shown() -> None:
    assert without_secrets(SECRET) == SECRET
    assert peer_text(SECRET) == f"'{SECRET}'"
    keep_secret(None, "")
    assert peer_text(SECRET) == f"'{SECRET}'"


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
    assert peer_text(prose) == f"'{prose}'"


def test_words_of_a_peer_hold_no_secret_and_no_part_of_one_that_is_cut() -> None:
    keep_secret(SECRET)
    assert peer_text(f"you sent {SECRET}") == f"'you sent {HIDDEN}'"
    assert peer_text(json.dumps({"sent": SECRET})) == f'\'{{"sent": "{HIDDEN}"}}\''
    assert "correct" not in peer_text("x" * 190 + SECRET)


def test_a_long_text_shows_no_part_of_a_secret_that_is_cut_where_the_search_ends() -> None:
    token = "".join(f"{number:04}" for number in range(750))
    keep_secret(token)
    assert printable(2 * token) == 2 * HIDDEN
    assert printable(4 * PROSE_SIZE_MAX * "x").startswith("x" * 200)
    for text in (4 * token, (4 * token).encode(), f"ä{4 * token}".encode(), 20 * token):
        assert not any(token[pos : pos + 8] in printable(text) for pos in range(len(token) - 8))
    longer = "".join(f"{number:05}" for number in range(PROSE_SIZE_MAX // 4))
    keep_secret(longer)
    assert "00001" not in printable(longer)


@given(st.text(min_size=8, max_size=40).filter(lambda text: HIDDEN not in text), st.text(max_size=20))
def test_no_error_holds_a_whole_secret_wherever_it_came_from(secret: str, before: str) -> None:
    secrecy._kept.clear()
    keep_secret(secret)
    message = str(KafkaWireError(f"broker 1 ({before}{secret}:9092): {secret!r} {secret!a}: gone"))
    assert secret not in message.replace(HIDDEN, "\0")
    assert ascii(secret)[1:-1] not in message.replace(HIDDEN, "\0")


def test_a_short_secret_leaves_the_words_of_this_package_alone() -> None:
    keep_secret("kafka")
    message = "the broker does not support kafka.sasl.mechanism=PLAIN"
    assert str(KafkaWireError(message)) == message


@for_each("text", ["you sent hunt3r", "userhunt3rs", "hunt3r", "x" * 5000 + "hunt3r", b"\0alice\0hunt3r"])
@for_each("show", [printable, quote, peer_text])
def test_a_foreign_text_with_a_short_secret_is_withheld_completely(
    show: Callable[[str | bytes], str], text: str | bytes
) -> None:
    keep_secret("hunt3r")
    assert show(text).strip("'") == WITHHELD
    assert show("you sent hunter").strip("'") == "you sent hunter"


@given(st.text(min_size=1, max_size=7), st.text(max_size=20), st.text(max_size=300))
def test_no_shown_text_contains_a_short_secret_as_it_is_or_escaped(
    secret: str, before: str, after: str
) -> None:
    secrecy._kept.clear()
    keep_secret(secret)
    for text in (secret, repr(secret), ascii(secret), json.dumps(secret)):
        assert quote(f"{before}{text}{after}") == f"'{WITHHELD}'"


def test_names_that_contain_a_short_secret_are_withheld_and_the_message_is_not() -> None:
    keep_secret("hunt3r")
    assert str(Broker(1, "hunt3r.example", 9092)) == f"broker 1 ({WITHHELD}:9092)"
    assert str(TopicPartition("orders-of-hunt3r", 0)).startswith(WITHHELD)


def test_a_long_secret_is_hidden_before_a_text_is_cut() -> None:
    keep_secret(SECRET)
    assert "correct" not in printable("x" * 190 + SECRET)
    assert "correct" not in printable(b"x" * 190 + SECRET.encode())


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
