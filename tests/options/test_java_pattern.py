"""A pattern picks the names that it picks in Java, or is refused: ``java_patterns/found.json`` was recorded
with java.util.regex itself, which ``tests/source/test_java_patterns.py`` asks again."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, ProtocolError
from spark_kafkawire.options import ReadOptions, Selection
from spark_kafkawire.options.java_pattern import NAME_SIZE_MAX, JavaPattern, PatternError
from spark_kafkawire.planner.batch import select
from tests.options.java_patterns.record import FOUND, HAND_MADE, NAMES
from tests.support.cases import for_each

RECORDED: Final[dict[str, Any]] = json.loads(FOUND.read_text("ascii"))
FOUND_BY: Final[dict[str, str]] = RECORDED["found"]
#: All that Java reads and that is refused here, by what is in such patterns.
REFUSED: Final = {
    "intersections and unions of classes": r"&&|\[[^]]*\[|\[:",
    "characters in a class that mean themselves": r"\[\^?(\]|[^]]*[&^-])",
    "quotes in a class": r"\[[^]]*\\Q",
    "properties of Unicode and POSIX": r"\\[pP]",
    "other sets": r"\\[hHvVRX]",
    "characters by number and controls": r"\\[xu0ctnrfae]",
    "the end of the match before": r"\\G",
    "back references": r"\\[1k]",
    "atomic groups": r"\(\?>",
    "groups with names": r"\(\?<[a-z]",
    "other flags": r"\(\?[i-]*[smudxU-]",
    "possessive repetitions": r"[*+?}]\+",
    "repeated repetitions": r"\}\{",
    "repeated places": r"\^\*|\\b\+|\(\?=a\)\*|\$\?",
    "repetitions in a look-behind": r"\(\?<[=!][^)]*[*+}]",
    "what may be empty, repeated at least twice": r"\)\{2",
}


@functools.cache
def finds(pattern: str) -> list[bool | None] | None:
    """Of each name whether it is found; None where that is refused."""
    try:
        compiled = JavaPattern(pattern)
    except PatternError:
        return None
    return [looked(compiled, name) for name in NAMES]


def looked(pattern: JavaPattern, name: str) -> bool | None:
    try:
        return pattern.is_found_in(name)
    except PatternError:
        if name.isascii():
            raise
        return None


def test_the_record_is_of_these_names() -> None:
    assert tuple(RECORDED["names"]) == NAMES
    assert set(HAND_MADE) <= set(FOUND_BY)


@pytest.mark.slow
def test_no_pattern_picks_other_names_than_in_java() -> None:
    understood = 0
    for pattern, line in FOUND_BY.items():
        result = finds(pattern)
        if result is None:
            continue
        understood += 1
        assert line != "E", f"Java refuses {pattern!r}"
        differing = [
            name
            for name, ours, javas in zip(NAMES, result, line, strict=True)
            if ours not in (None, javas == "1")
        ]
        assert not differing, f"{pattern!r} differs from Java for {differing}"
    assert understood > 0.8 * len(FOUND_BY)


def test_what_java_reads_and_is_refused_is_named_here() -> None:
    refused = [pattern for pattern, line in FOUND_BY.items() if line != "E" and finds(pattern) is None]
    assert len(refused) < 0.15 * len(FOUND_BY)
    assert not [item for item in refused if not any(re.search(part, item) for part in REFUSED.values())]
    assert not [kind for kind, part in REFUSED.items() if not any(re.search(part, item) for item in refused)]


@for_each(
    "pattern",
    [
        ".*", "orders-.*|topic", "^(topic|orders)-[a-z]+$", r"\Qa.b\E", r"orders\.v\d{1,2}", r"orders\-eu\_1",
        "(?i)topic", "(?i:top)ic", "^(?!__).*", ".*(?<!-dev)$", "^((?!dev).)*$", r"^\w+([.-]\w+)*$", r"\Aa\z",
        r"\btopic\b", "(a+)+$", "[^-_.]+?", r"[\w.-]+",
    ],
)  # fmt: skip
def test_what_java_users_write_is_read(pattern: str) -> None:
    assert FOUND_BY.get(pattern, "") != "E"
    JavaPattern(pattern)


@for_each(
    ("pattern", "advice"),
    [
        ("(?P<x>a)", "(?P<x>a) is not read; groups are (...), (?:...), (?i:...), (?=...), (?!...)"),
        ("(?<x>a)", "(?<x>a) is not read; groups are (...)"),
        ("(?>a)", "(?>a) is not read; groups are (...)"),
        ("(?u)a", "the only flag is (?i)"),
        ("(?#c)a", "the only flag is (?i)"),
        (r"(a)\1", r"\1 is not read; back references are not read"),
        (r"\p{Alpha}", r"\p is not read; write a class, as [A-Za-z]"),
        (r"\x41", r"\x is not read; write the character itself, or a class"),
        (r"\R", r"\R is not read"),
        (r"\y", r"\y is not read"),
        (r"a\E", r"\E is not read; it has no \Q before it"),
        ("[a-z&&[^x]]", "& in a class is not read; write \\& for the character"),
        ("[a[b]]", "[ in a class is not read; write \\[ for the character"),
        ("\xe4", "it has a character that is not ASCII, as no topic of Kafka has; write ."),
        ("a{,2}", "write \\{ for the character"),
        ("{a}", "nothing is before a { that it could repeat; write \\ before it"),
        ("[]a]", "begins with ]; write \\]"),
        ("[a-b-c]", "write \\-"),
        ("(", "is not closed"),
        ("a)", "write \\)"),
        ("*a", "nothing is before a *"),
        ("a**", "two repetitions follow each other"),
        ("(?<=a{1,3})b", "a repetition in a (?<=...) or (?<!...) is not read; write it out"),
        ("a++", "a possessive repetition (as a*+) is not read; leave its last + out"),
        ("(a|^){2}", "what may be empty is repeated at least twice"),
        ("[z-a]", "runs backwards"),
        ("a{2,1}", "runs backwards, or counts more than 1000"),
        ("a\\", "it is incomplete"),
        ("[a", "it is incomplete"),
        ("(" * 1000, "nested deeper than"),
        ("a" * 20_000, "it has 20000 characters"),
    ],
)
def test_what_is_not_read_is_refused_in_one_line_with_what_to_write(pattern: str, advice: str) -> None:
    with pytest.raises(OptionError) as error:
        ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": pattern})
    assert str(error.value).startswith("option subscribePattern: '")
    assert advice in str(error.value)
    assert str(error.value).isprintable()


@given(
    st.text(st.characters() | st.sampled_from(r"()[]{}*+?|^$.\-&<>=!:ab")), st.text(max_size=NAME_SIZE_MAX)
)
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    result: bool | str = False
    try:
        result = JavaPattern(pattern).is_found_in(name)
    except PatternError as error:
        result = str(error)
    assert result in (True, False) or len(str(result)) < 500


@for_each(
    "pattern",
    [
        "(a+)+$", "(a|a)*b", "(x+x+)+y", "(a*)*b", ".*.*.*.*.*=.*", "(?=(a+)+$)b", "(?!(a|aa)+$)b",
        "((a?){0,50}){0,20}b", "^(a{1,1000}b{1,1000}){1,1000}c", "^" + "(" * 40 + "ab" + "*)" * 40 + "c",
        r"(\w+\d*)+-$",
    ],
)  # fmt: skip
def test_no_name_takes_more_than_a_bounded_time(pattern: str) -> None:
    began_s = time.monotonic()
    compiled = JavaPattern(pattern)
    for name in ("a" * NAME_SIZE_MAX, "a" * (NAME_SIZE_MAX - 1) + "!", "x" * NAME_SIZE_MAX, "ab" * 127):
        with contextlib.suppress(PatternError):  # of too many steps
            compiled.is_found_in(name)
    assert time.monotonic() - began_s < 10  # with Python's re the first one takes longer than the universe


def test_a_quarter_of_a_mebibyte_of_names_is_looked_through_at_once() -> None:
    compiled = JavaPattern(r"^(topic|orders)[-.]([a-wyz]+|\d+)*-?$|(a|b)*c\w*\.retry")
    began_s = time.monotonic()
    count = sum(compiled.is_found_in(f"{number:05}" + "ab" * 125) for number in range(1024))
    assert count == 0
    assert time.monotonic() - began_s < 60


def test_a_name_that_is_longer_than_any_is_an_error_before_it_is_looked_into() -> None:
    cluster: Any = SimpleNamespace(topics=lambda: ("a" * (NAME_SIZE_MAX + 1),))
    with pytest.raises(
        ProtocolError, match=r"^topic names have at most .* and a broker lists one of 256: 'aaa.*…"
    ):
        select(Selection(pattern="a"), cluster)


SLOW: Final = f"^(({'a|' * 700}b)(?!c))*d$"


def test_a_pattern_that_takes_too_long_for_a_name_is_named() -> None:
    cluster: Any = SimpleNamespace(topics=lambda: ("a" * NAME_SIZE_MAX,))
    with pytest.raises(OptionError) as error:
        select(Selection(pattern=SLOW), cluster, may_be_empty=True)
    assert str(error.value).startswith("option subscribePattern: '^((a|a|a")
    assert str(error.value).endswith(": it takes more than 100000 steps to look into one name; simplify it")


@pytest.mark.parametrize(("pattern", "name"), [(r"a\b", "a\xe4"), (r"\Ba", "\xe4a"), ("a", "a\U0001f600")])
def test_names_in_which_versions_of_java_differ_or_see_halves_are_refused(pattern: str, name: str) -> None:
    with pytest.raises(PatternError, match=r"Java"):
        JavaPattern(pattern).is_found_in(name)
    assert JavaPattern("^[^a]$").is_found_in("\xe4")
