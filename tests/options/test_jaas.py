"""Login modules as people write them, and errors that show nothing of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.options.jaas import parse_jaas
from tests.support.cases import for_each

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@for_each(
    ("text", "options"),
    [
        ('{0} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        ("{0} required username='alice' password='se\"cret';", {"username": "alice", "password": 'se"cret'}),
        ('{0} required password="a\\"b\\\\c";', {"password": 'a"b\\c'}),
        ('{0} required password="a\\tb\\nc\\101\\0d";', {"password": "a\tb\ncA\0d"}),
        ('{0} required password="a;b=c // no comment";', {"password": "a;b=c // no comment"}),
        ('{0}\n  REQUIRED\n  username="a"\n  password="b"\n;\n', {"username": "a", "password": "b"}),
        ('{0} required username = "a" password= "b" ;', {"username": "a", "password": "b"}),
        ('{0} required username=alice password="ü€";', {"username": "alice", "password": "ü€"}),
        ('{0} required username="a" password="b"', {"username": "a", "password": "b"}),
        ('/* who */ {0} required // what\n username="a";', {"username": "a"}),
        ('{0} optional password="first" password="last";', {"password": "last"}),
        ('{0} required password="";', {"password": ""}),
        ("{0} required;", {}),
        ('{0} required extension_a="b" a-b_c$="d";', {"extension_a": "b", "a-b_c$": "d"}),
    ],
)  # fmt: skip
def test_a_login_module_is_understood(text: str, options: dict[str, str]) -> None:
    login = parse_jaas(text.format(PLAIN))
    assert (login.module, login.options) == ("PlainLoginModule", options)


def test_shaded_and_bare_modules_are_known_by_their_last_name() -> None:
    for module in (f"kafkashaded.{PLAIN}", "PlainLoginModule"):
        assert parse_jaas(f"{module} required;").module == "PlainLoginModule"


@for_each(
    "text",
    [
        "",
        ";",
        "s3cret",
        "PlainLoginModule",
        'PlainLoginModule password="s3cret";',
        'KafkaClient { PlainLoginModule required password="s3cret"; };',
        'PlainLoginModule required password="s3cret',
        "PlainLoginModule required password='s3cret",
        'PlainLoginModule required password="s3cret\n";',
        "PlainLoginModule required password;",
        "PlainLoginModule required password=;",
        "PlainLoginModule required password==s3cret;",
        'PlainLoginModule required "s3cret";',
        'PlainLoginModule required username="a", password="s3cret";',
        'PlainLoginModule required password="s3cret"; ScramLoginModule required password="s3cret";',
    ],
)
def test_bad_text_is_told_and_not_shown(text: str) -> None:
    with pytest.raises(
        OptionError, match=r"^option kafka\.sasl\.jaas\.config: .* \(its value is not shown\)$"
    ) as error:
        parse_jaas(text)
    assert "s3cret" not in str(error.value)
    assert "\n" not in str(error.value)


@settings(deadline=None)
@given(st.text(max_size=60) | st.text("PlainLoginModule required=;\"'\\/* \n"))
def test_any_text_is_taken_or_told(text: str) -> None:
    try:
        login = parse_jaas(text)
    except OptionError as error:
        reported = str(error)
    else:
        reported = "".join(f"{len(value)}" for value in login.options.values())
    assert len(reported.splitlines()) <= 1


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), min_size=1))
def test_a_quoted_value_survives(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'{PLAIN} required password="{escaped}";').options == {"password": value}


def test_no_repr_shows_what_a_module_is_told() -> None:
    assert "s3cret" not in repr(parse_jaas('PlainLoginModule required password="s3cret";'))
