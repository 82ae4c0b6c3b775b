"""A pattern picks the names that it picks in Java, or is refused: ``java_patterns/found.json`` was recorded
with java.util.regex itself, which ``tests/source/test_java_patterns.py`` asks again."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, ProtocolError
from spark_kafkawire.options import ReadOptions, Selection
from spark_kafkawire.options.java_pattern import NAME_SIZE_MAX, JavaPattern, PatternError
from spark_kafkawire.options.java_pattern.matcher import _Search
from spark_kafkawire.planner.batch import select
from tests.options.java_patterns.record import FOUND, HAND_MADE, NAMES

RECORDED: Final[dict[str, Any]] = json.loads(FOUND.read_text("ascii"))
FOUND_BY: Final[dict[str, str]] = RECORDED["found"]


def in_doubt(pattern: str, name: str) -> bool:
    """Where Java's versions differ among themselves, or count halves of characters."""
    return ("\\b" in pattern.lower() and not name.isascii()) or (
        "(?<" in pattern and max(name, default="") > "\uffff"
    )


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
        found = finds(pattern)
        if found is None or line == "E":
            continue
        understood += 1
        differing = [
            name
            for name, ours, javas in zip(NAMES, found, line, strict=True)
            if ours not in (None, javas == "1") and not in_doubt(pattern, name)
        ]
        assert not differing, f"{pattern!r} differs from Java for {differing}"
    assert understood > 900


@pytest.mark.slow
def test_both_ways_of_looking_find_the_same() -> None:
    quick = [JavaPattern(pattern) for pattern in FOUND_BY if finds(pattern) is not None]
    quick = [pattern for pattern in quick if pattern._automaton]
    assert len(quick) > 300
    for pattern in quick:
        for name in NAMES:
            if (found := looked(pattern, name)) is not None:
                with contextlib.suppress(PatternError):  # of scripts, which one way asks of fewer characters
                    slow = _Search(pattern._code, pattern._parts, name).is_found(pattern._start)
                    assert found == slow


@pytest.mark.parametrize(
    "pattern",
    [
        "[A-Z&&[^Y]]",
        "[a-z&&[^m-p]]",
        "[a-d[m-p]]",
        r"\Qa.b\E",
        "a++b",
        "(?>a+)b",
        "(?<x>a)",
        r"\h",
        r"[\w&&\D]",
        r"(?i)topic",
        "^(?!__).*",
        ".*(?<!-dev)$",
        r"\p{Alpha}",
        r"\x{1F600}",
        r"\0101",
        r"^\w+([.-]\w+)*$",
        ".*",
        "orders-.*|topic",
        r"a\z",
        r"a\Z",
        "(a+)+$",
        "[a-z&&[a-m]&&[c-z]]",
        r"(?i-s:A)",
        "a{1,2}+b",
        r"\p{L}+-\p{Nd}",
        r"\pL\P{Lu}",
        r"[\p{IsL}&&[^a-c]]",
        r"\p{IsLatin}\p{InGreek}",
        r"[\p{script=Greek}\p{blk=Basic Latin}]",
        r"(?i)\p{sc=cyrl}",
        r"\p{gc=Lu}",
    ],
)
def test_what_java_users_write_is_read(pattern: str) -> None:
    assert FOUND_BY.get(pattern, "") != "E"
    JavaPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("(?P<x>a)", "(?P<x>a is not read; write (?<name>...)"),
        (r"(a)\1", r"\1 is not read; back references are not read"),
        (r"\p{IsKlingon}", r"\p{IsKlingon} is no script or block of Unicode that Java knows"),
        (r"\p{InGreek}\p{InGREEK_AND_COPTIC}", r"\p{InGREEK_AND_COPTIC} is no script or block"),
        (r"\p{script=latin1}", r"\p{script=latin1} is no script or block"),
        (r"\p{blk=\u017ftraight}", "is no script or block"),
        (r"\p{IsAlphabetic}", "only general categories (as Lu) are read; write a class, as [A-Za-z]"),
        (r"(?i)\p{Lu}", "write a class, as [A-Za-z]"),
        (r"\p{Cn}", "write a class, as [A-Za-z]"),
        ("(?u)a", "only the flags is are read"),
        ("(?#c)a", "only the flags is are read"),
        (r"\R", r"write \v"),
        (r"\y", r"\y is not read; Java has none"),
        ("a{,2}", "write \\{ for the character"),
        ("{a}", "write \\{"),
        ("[]a]", "begins with ]; escape it"),
        ("[a-b-c]", "write \\-"),
        ("(", "is not closed"),
        ("a)", "write \\)"),
        ("*a", "nothing is before a *"),
        ("a**", "two repetitions follow each other"),
        ("(?<=a+)b", "looks behind without an end"),
        ("(a+)++", "write (?>...)"),
        ("a\\", "ends where something must follow"),
        ("[a", "ends where something must follow"),
        ("((a{1000}){1000}){1000}", "it repeats too much"),
        ("((){1000}){1000}", "it repeats too much"),
        ("(" * 1000, "nested deeper than"),
        ("[" * 1000, "nested deeper than"),
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
    found: bool | str = False
    try:
        found = JavaPattern(pattern).is_found_in(name)
    except PatternError as error:
        found = str(error)
    assert found in (True, False) or len(str(found)) < 500


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        "(x+x+)+y",
        "(a*)*b",
        ".*.*.*.*.*=.*",
        "(?=(a+)+$)b",
        "(?!(a|aa)+$)b",
        "((a?){50}){20}b",
        "(?<=(a|aa){1,100})b",
        "(?>(a|aa)+)b",
        r"(\w+\d*)+-$",
    ],
)
def test_no_name_takes_more_than_a_bounded_time(pattern: str) -> None:
    began_s = time.monotonic()
    compiled = JavaPattern(pattern)
    for name in ("a" * NAME_SIZE_MAX, "a" * (NAME_SIZE_MAX - 1) + "!", "x" * NAME_SIZE_MAX, "ab" * 127):
        with contextlib.suppress(PatternError):  # of too many steps
            compiled.is_found_in(name)
    assert time.monotonic() - began_s < 60  # with Python's re the first one takes longer than the universe


def test_a_mebibyte_of_names_is_looked_through_at_once() -> None:
    compiled = JavaPattern(r"^(topic|orders)[-.]([a-z&&[^x]]+|\d+)*-?$|(a|b)*c\w*\.retry")
    began_s = time.monotonic()
    count = sum(compiled.is_found_in(f"{number:05}" + "ab" * 125) for number in range(4096))
    assert count == 0
    assert time.monotonic() - began_s < 60


class Topics:
    """A cluster that tells of topics."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics

    def topics(self) -> tuple[str, ...]:
        return self._topics


def test_a_name_that_is_longer_than_any_is_an_error_before_it_is_looked_into() -> None:
    cluster: Any = Topics("a" * (NAME_SIZE_MAX + 1))
    with pytest.raises(ProtocolError, match=r"^no broker has a topic of 256 characters: 'aaa.*…"):
        select(Selection(pattern="a"), cluster)


@pytest.mark.slow
def test_a_pattern_that_takes_too_long_for_a_name_is_named() -> None:
    cluster: Any = Topics("a" * NAME_SIZE_MAX)
    with pytest.raises(OptionError) as error:
        select(Selection(pattern="(?<=(a|aa){1,100})b"), cluster, may_be_empty=True)
    assert str(error.value) == (
        "option subscribePattern: '(?<=(a|aa){1,100})b': it takes more than 1000000 steps to look into one "
        "name; simplify it"
    )


def test_a_character_that_pythons_unicode_does_not_know_is_refused_where_a_category_is_asked_for() -> None:
    assert JavaPattern(r"^\p{L}+$").is_found_in("gr\xf6\xdfe")
    with pytest.raises(PatternError, match=r"^Unicode [0-9.]+ has no U\+0378, which is in the name$"):
        JavaPattern(r"\p{L}").is_found_in("\u0378")


@pytest.mark.parametrize("pattern", [r"\p{IsGreek}", r"\P{InGreek}", r"\p{blk=Basic Latin}$"])
def test_scripts_of_other_characters_than_ascii_are_refused_where_they_decide(pattern: str) -> None:
    with pytest.raises(
        PatternError, match=r"^whether U\+03B1, which is in the name, is of the .* is not known here"
    ):
        JavaPattern(pattern).is_found_in("\u03b1")
    assert JavaPattern(f"[\u03b1{pattern.removesuffix('$')}]").is_found_in("\u03b1")
