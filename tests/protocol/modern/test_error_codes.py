"""The table of error codes: complete, named and retried as Kafka's own, and described."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.errors import Action, ErrorTable
from spark_kafkawire.protocol import v07 as v07_codes
from spark_kafkawire.protocol.modern import error_codes as modern_codes
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.v07 import ErrorCode as Code
from spark_kafkawire.protocol.v07 import broker_error as error_of_07
from tests.support.cases import for_each
from tests.support.kio_library import HAS_KIO, NEEDS_KIO

from .kafkas_codes import kafkas_own

if HAS_KIO:
    from kio.schema.errors import ErrorCode as KioErrorCode
RETRIED: Final = (Action.RETRY, Action.BACK_OFF, Action.REFRESH)
#: What Kafka's clients do, as the recording has it, and what that may be here.
WAYS: Final = {"refresh": (Action.REFRESH,), "retry": RETRIED}
#: Codes that Kafka does not retry, and that new metadata cure.
ALSO_REFRESHED: Final = {ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REBOOTSTRAP_REQUIRED}
DESCRIBED: Final[list[ErrorTable]] = [code for code in (*ErrorCode, *v07_codes.ErrorCode) if code]


def test_codes_and_names_are_kafkas() -> None:
    assert [(code.value, code.name) for code in ErrorCode] == [
        (number, name) for number, name, _ in kafkas_own()
    ]


@for_each(("number", "name", "way"), kafkas_own())
def test_a_code_is_retried_and_refreshed_where_kafka_does_so(number: int, name: str, way: str) -> None:
    code = ErrorCode(number)
    if way == "fail":
        assert (code.action in RETRIED) == (code in ALSO_REFRESHED), name
    else:
        assert code.action in WAYS[way], name


@NEEDS_KIO
def test_kio_knows_no_code_by_another_name_or_way_to_go_on() -> None:
    for theirs in KioErrorCode:
        ours = ErrorCode(theirs.value)
        assert (ours.name, ours.action in RETRIED) == (
            theirs.name.upper(),
            theirs.retriable or ours in ALSO_REFRESHED,
        )


@pytest.mark.parametrize(
    ("action", "codes"),
    [
        (Action.REFRESH, {3, 5, 6, 8, 9, 13, 15, 16, 41, 56, 72, 74, 75, 80, 83, 84, 100, 103, 129}),
        (Action.BACK_OFF, {7, 14, 19, 20, 51, 78, 88, 89, 133}),
        (Action.RETRY, {2, 70, 71, 106, 122, 123}),
        (Action.DATA_LOSS, {1}),
    ],
)
def test_each_way_to_go_on_has_its_codes(action: Action, codes: set[int]) -> None:
    assert {int(code) for code in ErrorCode if code.action is action} == codes


@for_each("code", DESCRIBED, ids=lambda code: code.name)
def test_each_code_tells_what_happened_and_what_to_do(code: ErrorTable) -> None:
    for sentence in (code.meaning, code.remedy):
        assert len(sentence.split()) > 1
        assert sentence.isprintable()
        assert not sentence.endswith((".", ";", ",", " "))


@pytest.mark.parametrize("table", [ErrorCode, v07_codes.ErrorCode])
def test_no_two_codes_mean_the_same_but_those_of_requests_that_nothing_sends(table: type[ErrorTable]) -> None:
    meanings = [code.meaning for code in table if "nothing here requests that" not in code.remedy]
    assert len(set(meanings)) == len(meanings)


def test_an_error_is_one_line_with_place_meaning_code_name_and_remedy() -> None:
    error = broker_error(10, "Produce to t 3 on broker 1 (h:9092)")
    assert str(error) == (
        "Produce to t 3 on broker 1 (h:9092): a batch is larger than the topic's max.message.bytes "
        "(error 10 MESSAGE_TOO_LARGE); "
        "lower batchBytes; if a single record is that large, raise max.message.bytes of the topic"
    )
    assert (error.code, error.action, error.retriable) == (10, Action.FIX_OPTION, False)


def test_what_the_broker_says_itself_is_shown_in_one_line_of_bounded_length() -> None:
    error = broker_error(87, "t 3", "two\nlines" + "x" * 1000)
    assert str(error).startswith("t 3: the broker refuses a record, it says 'two\\nlinesxxx")
    assert "' (error 87 INVALID_RECORD); see the broker" in str(error)
    assert len(str(error)) < 400


def test_an_unknown_code_is_fatal_and_named_by_its_number() -> None:
    error = broker_error(999, "t 3")
    assert str(error) == "t 3: the broker answered with the unknown error code 999; see its log"
    assert (error.code, error.action) == (999, Action.FAIL)


# --- The error codes of 0.7: number, name and meaning, and no confusion with those of later brokers ---


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.NONE])
def test_a_brokers_code_is_reported_by_number_name_and_meaning(code: Code) -> None:
    error = error_of_07(code, "t 0-1 on broker 0 (h:1)")
    assert error.code == code
    assert str(error).startswith("t 0-1 on broker 0 (h:1): the ")
    assert str(error).endswith(f" (error {code.value} {code.name}); {code.remedy}")


def test_each_code_asks_for_what_cures_them() -> None:
    actions = {code: error_of_07(code, "p").action for code in Code if code is not Code.NONE}
    assert actions == {
        Code.UNKNOWN: Action.FIX_OPTION,
        Code.OFFSET_OUT_OF_RANGE: Action.DATA_LOSS,
        Code.INVALID_MESSAGE: Action.FAIL,
        Code.WRONG_PARTITION: Action.REFRESH,
        Code.INVALID_FETCH_SIZE: Action.FIX_OPTION,
    }


def test_report_an_unknown_code_by_number() -> None:
    error = error_of_07(77, "t 0-1")
    assert str(error) == "t 0-1: the broker answered with the unknown error code 77; see its log"
    assert (error.code, error.action) == (77, Action.FAIL)


def test_later_brokers_mean_something_else_by_the_same_numbers() -> None:
    assert Code(3).name == "WRONG_PARTITION"
    assert modern_codes.ErrorCode(3).name == "UNKNOWN_TOPIC_OR_PARTITION"
