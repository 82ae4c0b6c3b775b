"""Files of options: what Java's Properties reads, we read."""

from __future__ import annotations

import pytest

from spark_kafkawire.jobs.properties import parse_properties


@pytest.mark.parametrize(
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
        ("a=1\na=2", {"a": "2"}),
        ("a=\nb", {"a": "", "b": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=\\", {"a": ""}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("", {}),
    ],
)
def test_properties_are_those_that_java_reads(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties
