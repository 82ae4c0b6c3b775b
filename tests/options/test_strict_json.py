"""JSON in which nothing is silently ignored."""

from __future__ import annotations

import pytest

from spark_kafkawire.options.strict_json import NotAnObject, RepeatedKey, json_object
from tests.support.cases import for_each


def test_an_object_is_read_as_it_is() -> None:
    assert json_object(' {"a": {"b": [1, null, 2.5, "x"]}, "": {}}\n') == {
        "a": {"b": [1, None, 2.5, "x"]},
        "": {},
    }


@pytest.mark.parametrize(
    "text", ['{"k": 1, "k": 1}', '{"a": [{"k": 1, "b": 2, "k": 3}]}', '{"k": 1, "\\u006b": 2}']
)
def test_a_key_that_is_there_twice_is_named(text: str) -> None:
    with pytest.raises(RepeatedKey, match=r"^the key k appears twice$") as refused:
        json_object(text)
    assert refused.value.key == "k"


@for_each(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("[]", "it is no JSON object"),
        ("1", "it is no JSON object"),
        ('{"a": 1', "it is not JSON, or cut"),
        ('{"a": 1} {}', "it is not JSON, or cut"),
        ("[" * 100_000, "it is not JSON, or cut"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": [-Infinity]}', "-Infinity is no number"),
    ],
)
def test_what_is_no_object_is_told(text: str, why: str) -> None:
    with pytest.raises(NotAnObject, match=f"^{why}$"):
        json_object(text)
