"""Secrets of options: no error shows one, whatever other option repeats it."""

from __future__ import annotations

import itertools
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.errors import OptionError, quote
from spark_kafkawire.jobs.arguments import read_options
from spark_kafkawire.net.logins import Password
from spark_kafkawire.options import (
    OPTIONS,
    STREAM_OPTIONS,
    Option,
    ReadOptions,
    StreamOptions,
    TableOptions,
    WriteOptions,
    read_options_of,
)
from spark_kafkawire.options.references import FILE_BYTES_MAX, resolve_references
from spark_kafkawire.options.table import keep_secrets
from tests.support.cases import for_each, forget_all
from tests.support.special_files import KINDS, special_file

#: A long one is replaced where it occurs, a text with a short one is withheld.
SECRETS: Final = ("Correct-Horse+battery", "hunT3r")
SECRET_OPTIONS: Final = [option for option in OPTIONS if option.secrets is not None]
#: What the text of an option is, where it is more than a secret.
FORMS: Final = {
    "kafka.sasl.jaas.config": 'PlainLoginModule required username="user" password="{}";',
    "basic.auth.user.info": "user:{}",
    "zookeeper.auth": "digest:user:{}",
}
#: Forms in which the other option repeats it, such as a part of a list or of a JSON text.
REPEATED: Final = ("{}", " {} ", "h:1,{}", '{{"{}": {{"0": 1}}}}', '{{"t": "{}"}}')
#: Names that a person takes for those of secrets.
SOUNDS_SECRET: Final = re.compile(r"password|passphrase|secret|jaas|user\.info|token$|\.auth$|store\.key$")
_MODERN: Final = {"kafka.bootstrap.servers": "h:9092"}
BASES: Final[tuple[dict[str, str], ...]] = (
    _MODERN,
    {**_MODERN, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
    {**_MODERN, "schema.registry.url": "https://h", "valueFormat": "avro"},
    {"zookeeper.connect": "h:2181"},
)
ENTRIES: Final[tuple[tuple[Callable[[dict[str, str]], object], dict[str, str]], ...]] = (
    (ReadOptions.parse, {"subscribe": "t"}),
    (StreamOptions.parse, {"subscribe": "t"}),
    (read_options_of, {"subscribe": "t"}),
    (WriteOptions.parse, {"topic": "t"}),
    (TableOptions.parse, {"table": "partitions"}),
)


@pytest.fixture(params=SECRETS, ids=["long", "short"])
def secret(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text_of(option: Option[Any], secret: str) -> str:
    return FORMS.get(option.name, "{}").format(secret)


def refusal_of(parse: Callable[[dict[str, str]], object], given: dict[str, str]) -> str:
    """The text of the error; empty if there is none."""
    try:
        parse(given)
    except OptionError as error:
        return str(error)
    return ""


def test_options_that_sound_secret_are_declared_so() -> None:
    names = [option.name for option in (*OPTIONS, *STREAM_OPTIONS)]
    assert [name for name in names if SOUNDS_SECRET.search(name)] == [item.name for item in SECRET_OPTIONS]


@pytest.mark.slow
@for_each("option", SECRET_OPTIONS, ids=lambda option: option.name)
def test_no_option_shows_a_secret(option: Option[Any], secret: str, caplog: pytest.LogCaptureFixture) -> None:
    refused = 0
    others = {item.name for item in (*OPTIONS, *STREAM_OPTIONS)} - {option.name} | {"unknown"}
    # Each name of other options in one of the ways; the way, and what is around it, goes round from another
    # start for each option: all of it together would take minutes.
    start = SECRET_OPTIONS.index(option) + len(secret)
    ways = itertools.cycle(itertools.product(ENTRIES, BASES, REPEATED))
    # A step that divides no number of ways goes through all of them.
    chosen = itertools.islice(ways, start, None, 7)
    for name, ((parse, more), base, form) in zip(sorted(others), chosen, strict=False):
        forget_all()
        given = {**base, **more, option.name: text_of(option, secret), name: form.format(secret)}
        refusal = refusal_of(parse, given)
        refused += bool(refusal)
        assert secret.lower() not in refusal.lower(), given
    assert refused > len(others) / 3
    assert secret.lower() not in caplog.text.lower()


@for_each("option", SECRET_OPTIONS, ids=lambda option: option.name)
def test_a_job_hides_secrets_from_its_arguments_on(option: Option[Any], secret: str) -> None:
    read_options([f"{option.name.upper()}={text_of(option, secret)}"])
    assert secret not in quote(f"topic {secret}")


@pytest.mark.parametrize(
    "text",
    [
        "PlainLoginModule required password='{}';",
        "PlainLoginModule required password={};",
        'PlainLoginModule required username="user" password="{};',
        'PlainLoginModule required "password" = "{}" username="user',
        'password="{}"',
        'OAuthBearerLoginModule required clientSecret="{}" clientId="a";',
        'OAuthBearerLoginModule required token="{}";',
        'IAMLoginModule required awsRoleSecretAccessKey="{}" awsRoleSessionToken="other";',
        'IAMLoginModule required awsRoleSecretAccessKey="other" awsRoleSessionToken="{}";',
    ],
)
def test_secrets_are_found_in_a_damaged_login_too(text: str, secret: str) -> None:
    keep_secrets({"kafka.sasl.jaas.config": text.format(secret)})
    assert secret not in quote(f"topic {secret}")
    for shown in ("user", "clientId", "PlainLoginModule", "true"):
        assert quote(shown) == f"'{shown}'"


def test_an_escaped_secret_of_a_login_is_hidden_as_it_is_meant() -> None:
    keep_secrets({"kafka.sasl.jaas.config": r'PlainLoginModule required password="hun\"t3r\\";'})
    assert "hun" not in quote('hun"t3r\\') + quote(r"hun\"t3r\\") + quote(json.dumps('hun"t3r\\'))


def test_a_reference_is_shown_and_its_value_is_not(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", secret)
    given = {
        "kafka.bootstrap.servers": secret,
        "kafka.ssl.key.password": "${env:KAFKA_PASSWORD}",
        "topic": "t",
    }
    with pytest.raises(OptionError, match=r"^option kafka\.bootstrap\.servers: ") as refused:
        WriteOptions.parse(given)
    assert secret not in str(refused.value)
    refusal = refusal_of(WriteOptions.parse, {**given, "kafka.bootstrap.servers": "${env:KAFKA_PASSWORD}"})
    assert secret not in refusal
    assert quote("${env:KAFKA_PASSWORD}") == "'${env:KAFKA_PASSWORD}'"


# --- References to secrets in option values ---

SECRET: Final = 'correct horse "battery" staple'
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def value(text: str) -> str:
    with resolve_references({"x": text}) as result:
        return result["x"]


def refused(text: str) -> str:
    """The one line about a reference without a value."""
    with pytest.raises(OptionError) as error:
        value(text)
    assert str(error.value).startswith("option x: ")
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None
    return str(error.value)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("user = alice\npass\\:word: s3cret\\n\\u00fc\nempty=\nuser2 a\nUSER=bob\nuser=carol\n")
    return path


def test_values_come_from_three_providers_for_each_query(
    properties: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", SECRET)
    monkeypatch.setenv("EMPTY", "")
    assert value("${env:KAFKA_SECRET}") == SECRET
    assert value("a ${env:KAFKA_SECRET}${env:EMPTY} b ${env:KAFKA_SECRET}") == f"a {SECRET} b {SECRET}"
    # The last one, as Java's Properties has it; keys have a case, and may have a colon.
    assert value(f"${{file:{properties}:user}}") == "carol"
    assert value(f"${{file:{properties}:USER}}") == "bob"
    assert value(f"${{file:{properties}:pass:word}}") == "s3cret\nü"
    assert value(f"[${{file:{properties}:empty}}]") == "[]"
    (properties.parent / "token").write_text("one\ntwo\r\n")
    assert value(f"${{directory:{properties.parent}:token}}") == "one\ntwo"
    properties.write_text("user=dave")
    assert value(f"${{file:{properties}:user}}") == "dave"


@for_each(
    "text",
    ["", "$", "${", "${}", "${x}", "$env:X", "$ConnectionString", "{env:X}", "${env:X", "${ env:X}", "${:X}"],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert value(text) == text


def test_a_value_is_no_reference_and_a_variable_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${env:INNER} ${vault:x}")
    monkeypatch.setenv("INNER", SECRET)
    assert value("${env:OUTER}") == "${env:INNER} ${vault:x}"
    monkeypatch.delenv("KAFKA_SECRET", raising=False)
    assert refused("a ${env:KAFKA_SECRET}") == (
        "option x: ${env:KAFKA_SECRET}: the variable is not set in the environment of Spark's driver; set it "
        "before Spark starts, or use ${file:/path:key}"
    )


@pytest.mark.parametrize(
    "text", ["${vault:secret/kafka:password}", "pa${a:b}ss", "${ENV:X}", "${secrets:a/b:c}"]
)
def test_an_unknown_provider_is_refused_without_the_text_that_may_be_a_secret(text: str) -> None:
    message = refused(text)
    assert (
        "unknown provider (its value is not shown); known are ${env:NAME}, ${file:/path:key} and" in message
    )
    assert text[:7] not in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${{file:{0}:other}}", "the file has no key 'other'; add a line other=… to it, or correct the key"),
        ("${{file:{0}}}", "not of the form ${file:/path:key}"),
        ("${{file::key}}", "not of the form ${file:/path:key}"),
        ("${{file:{0}:}}", "not of the form ${file:/path:key}"),
        (
            "${{file:{0}.gone:key}}",
            "the file cannot be read on the driver: No such file or directory; give the",
        ),
        ("${{file:/:key}}", "the file cannot be read on the driver: Is a directory; give the path of a file"),
        ("${{file:a\0b:key}}", "the file cannot be read on the driver: it cannot be a file's name"),
        ("${{directory:{1}:gone}}", "the file cannot be read on the driver: No such file or directory"),
        ("${{directory:{1}}}", "not of the form ${directory:/path:name}, with the name of a file there"),
        ("${{directory:{1}:../passwd}}", "not of the form ${directory:/path:name}, with the name of a file"),
        ("${{directory:{1}:..}}", "not of the form ${directory:/path:name}, with the name of a file there"),
    ],
)
def test_a_file_without_the_value_is_named(properties: Path, text: str, problem: str) -> None:
    text = text.format(properties, properties.parent)
    message = refused(text)
    assert message.startswith(f"option x: {text}".replace("\0", "\\x00") + ": ")
    assert problem in message
    assert "alice" not in message
    assert "carol" not in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_not_regular_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = special_file(tmp_path / "it", kind)
    assert KINDS[kind] in refused(f"${{file:{path}:key}}")


def test_a_file_is_bounded_and_a_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a=" + b"x" * FILE_BYTES_MAX)
    assert f"the file is longer than {FILE_BYTES_MAX} bytes" in refused(f"${{file:{path}:a}}")
    path.write_bytes(b"a=s3cret\xff")
    message = refused(f"${{file:{path}:a}}")
    assert "the file is not a text in UTF-8" in message
    assert "s3cret" not in message


PARSES: Final[dict[str, tuple[Any, dict[str, str]]]] = {
    "read": (ReadOptions, {"subscribe": "t"}),
    "stream": (StreamOptions, {"subscribe": "t"}),
    "write": (WriteOptions, {"topic": "t"}),
}


def parsed(side: str, **options: str) -> Any:
    kind, more = PARSES[side]
    named = {name.replace("__", "."): value for name, value in options.items()}
    result = kind.parse({"kafka.bootstrap.servers": "h:9092", **more, **named})
    return result.read if side == "stream" else result


@pytest.mark.parametrize("side", PARSES)
def test_all_queries_take_references(monkeypatch: pytest.MonkeyPatch, properties: Path, side: str) -> None:
    monkeypatch.setenv("KAFKA_SECRET", SECRET.replace('"', '\\"'))
    monkeypatch.setenv("SERVERS", "h1:9092,h2:9093")
    password = 'password="${env:KAFKA_SECRET}"'
    result = parsed(
        side,
        kafka__bootstrap__servers="${env:SERVERS}",
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__jaas__config=f'{MODULE} username="${{file:{properties}:user}}" {password};',
    )
    assert result.net.connection.security.sasl.credentials == Password("carol", SECRET)
    assert [broker.host for broker in result.discovery.bootstrap_servers] == ["h1", "h2"]
    assert SECRET not in repr(result)


def test_zookeeper_and_the_registry_take_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTH", f"u:{SECRET}")
    old = ReadOptions.parse(
        {"zookeeper.connect": "z:2181", "zookeeper.auth": "digest:${env:AUTH}", "subscribe": "t"}
    )
    assert old.discovery.zookeeper_auth == ("digest", f"u:{SECRET}")
    typed = parsed(
        "read",
        valueFormat="avro",
        schema__registry__url="http://r:8081",
        basic__auth__user__info="${env:AUTH}",
    ).typed
    assert typed.registry.login.password == SECRET


def test_a_reference_in_a_language_of_its_own_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", SECRET)
    schema = (
        '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "string", "default": "${env:X}"}]}'
    )
    assert (
        parsed("read", valueFormat="avro", valueSchema=schema, schemaIdFrom="none").typed.value.schema_text
        == schema
    )
    pattern = ReadOptions.parse({"kafka.bootstrap.servers": "h:9092", "subscribePattern": "t[${env:X}]"})
    assert SECRET not in repr(pattern)
    assert "${env:X}" in repr(pattern)


@pytest.mark.parametrize("secret", ["hunter2", SECRET, "Hunter\n2" * 40, "x" * 300])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kafka.sasl.mechanism", "${env:X}"),
        ("kafka.security.protocol", "${env:X}"),
        ("requestTimeout", "${env:X}"),
        ("kafka.bootstrap.servers", "h:9092, ${env:X}"),
        ("schema.registry.url", "${env:X}"),
        ("schema.registry.url", "http://h:8081,${env:X}"),
        ("kafka.retries", "${env:X}"),
        ("kafka.ssl.truststore.location", "${env:X}"),
        ("kafka.ssl.truststore.location", "/${env:X}"),
        ("kafka.sasl.jaas.config", "${env:X}"),
        ("kafka.sasl.jaas.config", 'M required password="${env:X}'),
        ("valueSchemaVersion", "${env:X}"),
    ],
)
@pytest.mark.parametrize("side", PARSES)
def test_an_error_shows_the_reference_and_not_the_value(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    side: str,
    name: str,
    text: str,
    secret: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("X", secret)
    login = {"kafka.sasl.mechanism": "PLAIN", "kafka.security.protocol": "SASL_PLAINTEXT"}
    typed = {"valueFormat": "avro", "schema.registry.url": "http://h:8081"}
    of_tls = {"kafka.security.protocol": "SSL"}
    options = {**(login if "sasl" in name else of_tls if "ssl" in name else {}), **typed, name: text}
    with pytest.raises(OptionError, match=name) as error:
        parsed(side, **options)
    for shown in (str(error.value), repr(error.value), caplog.text):
        for spelling in (secret, secret.lower(), secret.upper(), secret[:100], repr(secret)[1:50]):
            assert spelling not in shown
    assert error.value.__cause__ is None or secret not in str(error.value.__cause__)
