"""The table of error codes: complete, named and retried as Kafka's own."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from spark_kafkawire.errors import Action
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error

RETRIED = (Action.RETRY, Action.BACK_OFF, Action.REFRESH)


def test_codes_and_names_are_kafkas() -> None:
    assert {code.value: code.name for code in ErrorCode} == {
        code.value: code.name.upper() for code in KioErrorCode
    }


def test_what_kafka_retries_is_retried() -> None:
    ours = {code.name for code in ErrorCode if code.action in RETRIED}
    theirs = {code.name.upper() for code in KioErrorCode if code.retriable}
    assert ours - theirs == {"BROKER_NOT_AVAILABLE", "REBOOTSTRAP_REQUIRED"}
    assert theirs - ours == set()


@pytest.mark.parametrize(
    ("action", "codes"),
    [
        (Action.REFRESH, {3, 5, 6, 8, 9, 15, 16, 41, 56, 72, 74, 75, 80, 83, 84, 100, 103, 129}),
        (Action.BACK_OFF, {7, 13, 14, 19, 20, 51, 78, 88, 89, 133}),
        (Action.RETRY, {2, 70, 71, 106, 122, 123}),
        (Action.DATA_LOSS, {1}),
    ],
)
def test_each_way_to_go_on_has_its_codes(action: Action, codes: set[int]) -> None:
    assert {int(code) for code in ErrorCode if code.action is action} == codes


def test_an_error_is_one_line_with_place_meaning_code_and_name() -> None:
    error = broker_error(6, "t 3 on broker 1 (h:9092), Produce")
    assert str(error) == (
        "t 3 on broker 1 (h:9092), Produce: another broker leads the partition now "
        "(error 6 NOT_LEADER_OR_FOLLOWER)"
    )
    assert (error.code, error.action, error.retriable) == (6, Action.REFRESH, True)


def test_what_the_broker_says_itself_is_shown_in_one_line_of_bounded_length() -> None:
    error = broker_error(87, "t 3", "two\nlines" + "x" * 1000)
    assert str(error).startswith("t 3: the broker refuses a record, it says 'two\\nlinesxxx")
    assert str(error).endswith("' (error 87 INVALID_RECORD)")
    assert len(str(error)) < 300


def test_an_unknown_code_is_fatal_and_named_by_its_number() -> None:
    error = broker_error(999, "t 3")
    assert str(error) == "t 3: the broker answered the unknown error code 999"
    assert (error.code, error.action) == (999, Action.FAIL)
