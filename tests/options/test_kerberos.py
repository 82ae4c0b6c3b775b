"""Options of logins with Kerberos: what they become, and which are refused."""

from __future__ import annotations

import logging
import pickle
from typing import Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.logins.kerberos.tickets import KerberosLogin
from spark_kafkawire.options import ReadOptions, WriteOptions
from tests.support.cases import for_each

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule required"
KEY_TAB: Final = f'{MODULE} useKeyTab=true keyTab="/etc/a.keytab" principal="a@R"'
CACHE: Final = f"{MODULE} useTicketCache=true"
SERVICE: Final = {"sasl.kerberos.service.name": "kafka"}
#: The properties of Kafka's clients for the renewal of tickets, from the constants of its class SaslConfigs.
OF_RENEWAL: Final = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.min.time.before.relogin",
)


def raw(jaas: str | None, options: dict[str, str], mechanism: str | None = "GSSAPI") -> dict[str, str]:
    named = {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": None if jaas is None else f"{jaas};",
        **options,
    }
    return {f"kafka.{name}": value for name, value in named.items() if value is not None}


def login(
    jaas: str, options: dict[str, str] | None = None, mechanism: str | None = "GSSAPI"
) -> KerberosLogin:
    given = raw(jaas, SERVICE if options is None else options, mechanism)
    sasl = ReadOptions.parse({**given, "subscribe": "t"}).net.connection.security.sasl
    assert WriteOptions.parse(given).net.connection.security.sasl == sasl
    assert sasl is not None
    assert sasl.mechanism == "GSSAPI"
    assert pickle.loads(pickle.dumps(sasl)) == sasl
    assert hash(sasl)
    assert isinstance(sasl.credentials, KerberosLogin)
    return sasl.credentials


def fails(jaas: str | None, options: dict[str, str] | None = None, mechanism: str | None = "GSSAPI") -> str:
    given = raw(jaas, SERVICE if options is None else options, mechanism)
    with pytest.raises(OptionError) as error:
        ReadOptions.parse({**given, "subscribe": "t"})
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_key_tab_is_read_with_its_principal() -> None:
    made = KerberosLogin("kafka", "a@R", "/etc/a.keytab")
    assert login(KEY_TAB) == made
    assert login(KEY_TAB.replace("com.sun.security.auth.module.", "")) == made
    usual = "storeKey=true doNotPrompt=true debug=false refreshKrb5Config=true isInitiator=true"
    assert login(f"{KEY_TAB} useTicketCache=FALSE {usual}") == made


def test_a_ticket_cache_is_named_or_that_of_the_environment() -> None:
    assert login(CACHE) == KerberosLogin("kafka")
    named = f'{CACHE} ticketCache="tickets-of-a" principal="a@R" useKeyTab=false'
    assert login(named) == KerberosLogin("kafka", "a@R", None, "tickets-of-a")


def test_the_name_of_the_service_is_in_either_place() -> None:
    made = KerberosLogin("broker")
    assert login(f'{CACHE} serviceName="broker"', {}) == made
    both = {"sasl.kerberos.service.name": "broker"}
    assert login(f'{CACHE} serviceName="broker"', both) == made
    assert "service.name: it is not serviceName of kafka.sasl.jaas.config" in fails(
        f'{CACHE} serviceName="other"', both
    )
    assert "option kafka.sasl.kerberos.service.name: set it: the first part of" in fails(CACHE, {})
    for name in ("kafka/host", "kafka@R", "a b", "a\nb"):
        assert "is not a name of a service" in fails(CACHE, {"sasl.kerberos.service.name": name})


def test_kerberos_is_the_login_of_options_that_are_those_of_kerberos() -> None:
    """Java's default is GSSAPI whatever the other options are."""
    assert login(KEY_TAB, mechanism=None) == login(KEY_TAB)
    assert login(f'{CACHE} serviceName="kafka"', {}, None) == KerberosLogin("kafka")
    assert "kafka.sasl.jaas.config: set it, for kafka.sasl.mechanism=GSSAPI" in fails(None, mechanism=None)
    plain = "PlainLoginModule required username='a' password='s3cret'"
    assert "kafka.sasl.mechanism: set PLAIN or" in fails(plain, {}, None)
    assert "its login module is not Krb5LoginModule" in fails(plain, SERVICE, None)


@for_each(
    ("jaas", "message"),
    [
        (MODULE, "set useKeyTab=true with keyTab="),
        (f"{MODULE} useKeyTab=false useTicketCache=false", "set useKeyTab=true with keyTab="),
        (f'{MODULE} keyTab="/a" principal="a"', "its option keyTab needs useKeyTab=true"),
        (f'{CACHE} keyTab="/a" principal="a"', "its option keyTab needs useKeyTab=true"),
        (f'{MODULE} useKeyTab=true keyTab="/a"', 'give it principal="…"'),
        (f'{MODULE} useKeyTab=true principal="a"', 'give it keyTab="…"'),
        (f'{MODULE} useKeyTab=true keyTab="" principal="a"', "its option keyTab is empty"),
        (f'{CACHE} ticketCache="a\\nb"', "its option ticketCache is empty, or has a character"),
        (f"{MODULE} useKeyTab=yes", "its option useKeyTab is not true or false"),
        (f"{CACHE} isInitiator=false", "isInitiator=false is for servers"),
        (f'{MODULE} useKeytab="file:///a" credsType=both', "it has the unknown option useKeytab; known are"),
    ],
)
def test_a_bad_login_module_is_reported(jaas: str, message: str) -> None:
    assert message in fails(jaas)


def test_what_has_no_effect_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    login(f"{KEY_TAB} useTicketCache=true renewTGT=true useFirstPass=false")
    assert caplog.messages[-2:] == [
        "option kafka.sasl.jaas.config: kafkawire does not use renewTGT",
        "option kafka.sasl.jaas.config: kafkawire does not use useTicketCache beside useKeyTab",
    ]
    caplog.clear()
    for name in OF_RENEWAL:
        login(CACHE, {**SERVICE, name: "1"})
    assert all("has no effect in kafkawire and is ignored" in message for message in caplog.messages)
    caplog.clear()
    given = raw("PlainLoginModule required username='a' password='b'", SERVICE, "PLAIN")
    ReadOptions.parse({**given, "subscribe": "t"})
    assert caplog.messages == ["kafka.sasl.mechanism=PLAIN does not use kafka.sasl.kerberos.service.name"]


def test_a_service_without_a_login_is_an_error() -> None:
    assert "does not log in; set" in fails(None, {**SERVICE, "security.protocol": "SSL"}, None)
