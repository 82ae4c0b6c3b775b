"""Secrets of options: no error shows one, whatever other option repeats it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.jobs.shell.arguments import read_options
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
from spark_kafkawire.options.table import keep_secrets
from tests.support.cases import for_each, forget_all

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
    assert [name for name in names if SOUNDS_SECRET.search(name)] == [each.name for each in SECRET_OPTIONS]


@for_each("option", SECRET_OPTIONS, ids=lambda option: option.name)
def test_no_other_option_shows_a_secret(
    option: Option[Any], secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    refused = 0
    others = {each.name for each in (*OPTIONS, *STREAM_OPTIONS)} - {option.name} | {"unknown"}
    # Each way with each name of other options; what is around them goes round, from another start for each
    # option: all of it together would take minutes.
    around = itertools.cycle(itertools.product(BASES, REPEATED))
    skipped = itertools.islice(around, SECRET_OPTIONS.index(option), None)
    for (name, (parse, more)), (base, form) in zip(
        itertools.product(sorted(others), ENTRIES), skipped, strict=False
    ):
        forget_all()
        given = {**base, **more, option.name: text_of(option, secret), name: form.format(secret)}
        refusal = refusal_of(parse, given)
        refused += bool(refusal)
        assert secret.lower() not in refusal.lower(), given
    assert refused > len(others)
    assert secret.lower() not in caplog.text.lower()


@for_each("option", SECRET_OPTIONS, ids=lambda option: option.name)
def test_a_job_hides_secrets_from_its_arguments_on(option: Option[Any], secret: str) -> None:
    read_options([f"{option.name.upper()}={text_of(option, secret)}"])
    assert secret not in quoted(f"topic {secret}")


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
    assert secret not in quoted(f"topic {secret}")
    for shown in ("user", "clientId", "PlainLoginModule", "true"):
        assert quoted(shown) == f"'{shown}'"


def test_an_escaped_secret_of_a_login_is_hidden_as_it_is_meant() -> None:
    keep_secrets({"kafka.sasl.jaas.config": r'PlainLoginModule required password="hun\"t3r\\";'})
    assert "hun" not in quoted('hun"t3r\\') + quoted(r"hun\"t3r\\") + quoted(json.dumps('hun"t3r\\'))


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
    assert quoted("${env:KAFKA_PASSWORD}") == "'${env:KAFKA_PASSWORD}'"
