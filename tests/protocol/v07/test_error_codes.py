"""The error codes of 0.7: number, name and meaning, and no confusion with those of later brokers."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import Action
from spark_kafkawire.protocol.modern import error_codes as modern_codes
from spark_kafkawire.protocol.v07.error_codes import ErrorCode, broker_error


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_a_brokers_code_is_told_by_number_name_and_meaning(code: ErrorCode) -> None:
    error = broker_error(code, "t 0-1 on broker 0 (h:1)")
    assert error.code == code
    assert str(error).startswith("t 0-1 on broker 0 (h:1): the ")
    assert str(error).endswith(f" (error {code.value} {code.name}); {code.remedy}")


def test_each_code_asks_for_what_cures_them() -> None:
    actions = {code: broker_error(code, "p").action for code in ErrorCode if code is not ErrorCode.NONE}
    assert actions == {
        ErrorCode.UNKNOWN: Action.FIX_OPTION,
        ErrorCode.OFFSET_OUT_OF_RANGE: Action.DATA_LOSS,
        ErrorCode.INVALID_MESSAGE: Action.FAIL,
        ErrorCode.WRONG_PARTITION: Action.REFRESH,
        ErrorCode.INVALID_FETCH_SIZE: Action.FIX_OPTION,
    }


def test_a_code_that_nobody_knows_is_told_by_number() -> None:
    error = broker_error(77, "t 0-1")
    assert str(error) == "t 0-1: the broker answered with the unknown error code 77"
    assert (error.code, error.action) == (77, Action.FAIL)


def test_later_brokers_mean_something_else_by_the_same_numbers() -> None:
    assert ErrorCode(3).name == "WRONG_PARTITION"
    assert modern_codes.ErrorCode(3).name == "UNKNOWN_TOPIC_OR_PARTITION"
