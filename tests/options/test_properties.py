"""Files of options: what Java's Properties reads, we read."""

from __future__ import annotations

import pytest

from spark_kafkawire.options.properties import RepeatedProperty, parse_properties
from tests.support.cases import for_each


@for_each(
    ("text", "properties"),
    [
        ("a=1\nb = 2\nc:3\nd : 4\ne 5\nf\t6", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}),
        ("# a comment=1\n  ! another=2\n\n   \na=1", {"a": "1"}),
        ("a=h:9092,h:9093", {"a": "h:9092,h:9093"}),
        (
            'a=Module required user="u" password="p=q#r!";',
            {"a": 'Module required user="u" password="p=q#r!";'},
        ),
        ("a=1\\\n   2\\\n# 3", {"a": "12# 3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b\\ c\\:d=e\\\\f\\tg\\u00e9", {"a=b c:d": "e\\f\tgé"}),
        ("a=\u00a01\x85b=2\u2028", {"a": "\u00a01\x85b=2\u2028"}),
        ("a=\nb", {"a": "", "b": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=\\", {"a": ""}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("", {}),
    ],
)
def test_properties_are_those_that_java_reads(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=1\na=2", "a=1\nb=2\nA=1", "a\\u0062=1\nab=1", "a=1\ra\n"])
def test_a_key_that_is_there_twice_is_told(text: str) -> None:
    with pytest.raises(RepeatedProperty):
        parse_properties(text)
