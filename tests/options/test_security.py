"""Security options become settings that hold every secret and show none."""

from __future__ import annotations

import logging
import pickle
import shutil
import ssl
import subprocess
from pathlib import Path
from ssl import TLSVersion
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.logins import Password
from spark_kafkawire.net.logins.kerberos import KerberosLogin
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.passwords import DelegationToken
from spark_kafkawire.net.logins.tokens.oauth import ClientCredentials
from spark_kafkawire.net.logins.tokens.token import FixedToken
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import PLAINTEXT, Security
from spark_kafkawire.net.tls import OF_REGISTRY, Tls, TlsLimits, context
from spark_kafkawire.options import OPTIONS, ReadOptions, WriteOptions, tls
from spark_kafkawire.options.jaas import parse_jaas
from spark_kafkawire.options.option import RawOptions, warn_once
from spark_kafkawire.options.security import RegistryTls
from spark_kafkawire.options.tls import TLS_1_2_SUITES, TLS_1_3_SUITES
from tests.support.cases import for_each
from tests.support.certificates import KEY_PASSWORD, Certificates
from tests.support.java_stores import CLIENT_STORES, FOLDER, STORE_PASSWORD, pem_of
from tests.support.java_stores import KEY_PASSWORD as KEY_OF_STORES

SECRET: Final = "s3cret"
TOKEN_URL: Final = "kafka.sasl.oauthbearer.token.endpoint.url"
PLAIN_JAAS: Final = f'PlainLoginModule required username="alice" password="{SECRET}";'
SCRAM_JAAS: Final = PLAIN_JAAS.replace("Plain", "Scram")
OAUTH_JAAS: Final = f'OAuthBearerLoginModule required clientId="me" clientSecret="{SECRET}" scope="kafka";'
TOKEN_JAAS: Final = f'OAuthBearerLoginModule required token="{SECRET}" extension_logicalCluster="lkc";'


def read(**changes: str) -> ReadOptions:
    options = {"bootstrap.servers": "a:9092", **{name.replace("__", "."): changes[name] for name in changes}}
    return ReadOptions.parse(
        {"subscribe": "t", **{f"kafka.{name}": value for name, value in options.items()}}
    )


def security(**changes: str) -> Security:
    return read(**changes).net.connection.security


def fails(**changes: str) -> str:
    with pytest.raises(OptionError) as error:
        read(**changes)
    message = str(error.value)
    assert message.isprintable()
    shown = message.replace("-----BEGIN …-----", "")
    assert not [hidden for hidden in (SECRET, KEY_PASSWORD, "-----BEGIN", *SECRETS) if hidden in shown]
    return message


def sasl(mechanism: str, jaas: str, **changes: str) -> Sasl | None:
    return security(
        security__protocol="SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__jaas__config=jaas, **changes
    ).sasl


def pem(path: Path, part: str) -> str:
    """Key or certificates of a file that holds both."""
    key, begin, chain = path.read_text().partition("-----BEGIN CERT")
    return key if part == "key" else begin + chain


def test_protocols_encrypt_check_names_and_log_in() -> None:
    assert security() is PLAINTEXT
    assert security(security__protocol=" plaintext ") is PLAINTEXT
    assert security(security__protocol="SSL") == Security(tls=Tls())
    for value in ("", " "):
        chosen = security(security__protocol="SSL", ssl__endpoint__identification__algorithm=value).tls
        assert chosen == Tls(checks_host_name=False)
    assert "'none' is not https, or an empty value" in fails(
        security__protocol="SSL", ssl__endpoint__identification__algorithm="none"
    )
    assert (
        "option kafka.security.protocol: 'TLS' is not PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"
        in fails(security__protocol="tls")
    )
    assert "option kafka.sasl.jaas.config is not set" in fails(
        security__protocol="SASL_SSL", sasl__mechanism="PLAIN"
    )


def test_files_are_read_where_options_are_parsed(certificates: Certificates) -> None:
    tls = security(
        security__protocol="ssl",
        ssl__truststore__type="PEM",
        ssl__truststore__location=str(certificates.authority),
        ssl__keystore__type="PEM",
        ssl__keystore__location=str(certificates.client_encrypted),
        ssl__key__password=KEY_PASSWORD,
    ).tls
    assert tls is not None
    assert (tls.trust, tls.identity) == (
        certificates.authority.read_text(),
        certificates.client_encrypted.read_text(),
    )
    assert context(tls)


def test_an_option_may_have_a_text_with_its_lines_in_one(certificates: Certificates) -> None:
    for between in ("\n", " ", "\\n", "", "\r\n"):
        tls = security(
            security__protocol="SSL",
            ssl__truststore__certificates=between.join(certificates.authority.read_text().splitlines()),
            ssl__keystore__key=between.join(pem(certificates.client, "key").splitlines()),
            ssl__keystore__certificate__chain=between.join(pem(certificates.client, "chain").splitlines()),
        ).tls
        assert tls == Tls(certificates.authority.read_text(), certificates.client.read_text())


def test_text_around_certificates_is_left_out(certificates: Certificates, tmp_path: Path) -> None:
    listed = tmp_path / "keytool.txt"
    one = certificates.authority.read_text()
    listed.write_text(f"Keystore type: JKS\nAlias name: ä\n{one}\n****\n{one}")
    tls = security(security__protocol="SSL", ssl__truststore__location=str(listed)).tls
    assert tls is not None
    assert tls.trust == one + one


def test_report_bad_files(tmp_path: Path) -> None:
    def reported(content: bytes, name: str = "ssl__truststore__location") -> str:
        path = tmp_path / "store"
        path.write_bytes(content)
        return fails(security__protocol="SSL", **{name: str(path)})

    message = fails(security__protocol="SSL", ssl__truststore__location="/no/such/file")
    assert message == (
        "option kafka.ssl.truststore.location: '/no/such/file' cannot be read on the driver: No such file or "
        "directory; give the path of a store that is on the driver"
    )
    assert "cannot be a file's name" in fails(security__protocol="SSL", ssl__truststore__location="a\0b")
    assert "Is a directory" in fails(security__protocol="SSL", ssl__keystore__location=str(tmp_path))
    assert "holds no -----BEGIN" in reported(b"")
    assert "longer than" in reported(bytes(5 << 20))
    message = reported(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    assert "cannot read a certificate" in message
    assert message.endswith(f" (kafka.ssl.truststore.location is '{tmp_path / 'store'}')")
    jks = reported(b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1")
    assert jks.endswith(
        "/store': the file is damaged: it ends too early; copy it again from where it was made"
    )


@pytest.mark.parametrize("path", ["", "  ", "\t"])
def test_report_an_empty_path_of_a_store_with_what_it_is_without(path: str) -> None:
    for protocol in ("SSL", "ssl"):
        assert fails(security__protocol=protocol, ssl__truststore__location=path) == (
            "option kafka.ssl.truststore.location: the path is empty; give that of a store that is on the "
            "driver, or leave the option out to trust the system's authorities"
        )
        assert fails(security__protocol=protocol, ssl__keystore__location=path) == (
            "option kafka.ssl.keystore.location: the path is empty; give that of a store that is on the "
            "driver, or leave the option out where the server asks for no certificate of the client"
        )


def test_options_that_go_together_are_distinguished(certificates: Certificates) -> None:
    client, authority = str(certificates.client), str(certificates.authority)
    assert "kafka.ssl.truststore.location and kafka.ssl.truststore.certificates are both set" in fails(
        security__protocol="SSL", ssl__truststore__location=authority, ssl__truststore__certificates="x"
    )
    assert "kafka.ssl.keystore.location and kafka.ssl.keystore.key are both set" in fails(
        security__protocol="SSL", ssl__keystore__location=client, ssl__keystore__key="x"
    )
    assert "option kafka.ssl.keystore.key is set without kafka.ssl.keystore.certificate.chain" in fails(
        security__protocol="SSL", ssl__keystore__key=pem(certificates.client, "key")
    )
    assert "with this kafka.ssl.key.password" in fails(
        security__protocol="SSL",
        ssl__keystore__location=str(certificates.client_encrypted),
        ssl__key__password=SECRET,
    )


def test_a_login_is_parsed_for_each_mechanism() -> None:
    assert sasl("PLAIN", PLAIN_JAAS) == Sasl("PLAIN", Password("alice", SECRET))
    assert sasl("scram-sha-256", SCRAM_JAAS) == Sasl("SCRAM-SHA-256", Password("alice", SECRET))
    assert sasl("SCRAM-SHA-512", SCRAM_JAAS) == Sasl("SCRAM-SHA-512", Password("alice", SECRET))
    token = Bearer(FixedToken(SECRET), (("logicalCluster", "lkc"),))
    assert sasl("OAUTHBEARER", TOKEN_JAAS) == Sasl("OAUTHBEARER", token)
    url = "https://login.example/token"
    credentials = ClientCredentials(url, "me", SECRET, "kafka")
    assert sasl("OAUTHBEARER", OAUTH_JAAS, sasl__oauthbearer__token__endpoint__url=url) == Sasl(
        "OAUTHBEARER", Bearer(credentials)
    )


@for_each(
    ("mechanism", "jaas", "message"),
    [
        ("", PLAIN_JAAS, "option kafka.sasl.mechanism is not set: set it to PLAIN or SCRAM"),
        ("GSSAPI", PLAIN_JAAS, "begin it with Krb5LoginModule"),
        ("AWS_MSK_IAM", PLAIN_JAAS, "begin it with IAMLoginModule"),
        ("PLAIN", SCRAM_JAAS, "begin it with PlainLoginModule"),
        ("SCRAM-SHA-256", PLAIN_JAAS, "begin it with ScramLoginModule"),
        ("OAUTHBEARER", PLAIN_JAAS, "begin it with OAuthBearerLoginModule"),
        ("PLAIN", f'{SECRET} required username="a";', "begin it with PlainLoginModule"),
        ("PLAIN", f'PlainLoginModule required password="{SECRET}";', 'give it username="…"'),
        ("PLAIN", 'PlainLoginModule required username="a" password="";', 'give it password="…"'),
        ("PLAIN", f'PlainLoginModule required username="a" password="{SECRET}\\0";', 'password="…"'),
        ("OAUTHBEARER", OAUTH_JAAS, f'give it token="…", or set {TOKEN_URL} with '),
        ("OAUTHBEARER", f'OAuthBearerLoginModule required token="{SECRET} x";', "not one word of ASCII"),
        (
            "OAUTHBEARER",
            TOKEN_JAAS.replace("logical", "logical-"),
            "the name of an extension has other signs than letters",
        ),
        ("PLAIN", SECRET, "it does not begin with a login module"),
    ],
)
def test_report_a_bad_login(mechanism: str, jaas: str, message: str) -> None:
    assert message in fails(
        security__protocol="SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__jaas__config=jaas
    )


def test_the_id_and_the_hmac_of_a_delegation_token_are_a_login() -> None:
    jaas = SCRAM_JAAS[:-1] + ' tokenauth="TRUE";'
    assert sasl("SCRAM-SHA-512", jaas) == Sasl("SCRAM-SHA-512", DelegationToken("alice", SECRET))
    assert SECRET not in repr(sasl("SCRAM-SHA-512", jaas))
    # Java's module for PLAIN does not look at it.
    assert sasl("PLAIN", PLAIN_JAAS[:-1] + " tokenauth=true;") == Sasl("PLAIN", Password("alice", SECRET))


def test_a_login_may_be_the_drivers_alone() -> None:
    given = {
        "kafka.bootstrap.servers": "a:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": SCRAM_JAAS,
        "delegationTokens": "true",
    }
    options = ReadOptions.parse({**given, "subscribe": "t"})
    assert options.net.delegates
    assert not ReadOptions.parse({**given, "delegationTokens": "false", "subscribe": "t"}).net.delegates
    for whole in (options, WriteOptions.parse(given)):
        with pytest.raises(OptionError, match="option delegationTokens: this job or table has no"):
            pickle.dumps(whole)
    travels = pickle.dumps(options.of_tasks)
    assert SECRET.encode() not in travels
    assert pickle.loads(travels).net.connection.security.sasl is None
    token = Sasl("SCRAM-SHA-512", DelegationToken("id", "hmac", 1.0))
    with_token = pickle.loads(pickle.dumps(options.net.with_token(token)))
    assert with_token.connection.security == Security(Tls(), token)
    for changes, message in (
        (
            {"kafka.sasl.jaas.config": SCRAM_JAAS[:-1] + " tokenauth=true;"},
            "brokers give no token to a client",
        ),
        ({"delegationTokens": "maybe"}, "option delegationTokens"),
    ):
        with pytest.raises(OptionError, match=message) as caught:
            WriteOptions.parse({**given, **changes})
        assert SECRET not in str(caught.value)
    plain = {"kafka.bootstrap.servers": "a:9092", "delegationTokens": "true"}
    with pytest.raises(OptionError, match="option delegationTokens: delegation tokens are logins by SASL"):
        WriteOptions.parse(plain)
    with pytest.raises(OptionError, match="delegationTokens") as caught:
        WriteOptions.parse({"broker.list": "0:a:9092", "delegationTokens": "true"})
    assert "\n" not in str(caught.value)


@for_each(
    "url",
    ["", "http://h/t", "h/t", "https://", "https://h:x/t", "https://h:70000/t", f"https://u:{SECRET}@h/t",
     "https://h/a b", "https://h/\r\nX: y"],
)  # fmt: skip
def test_report_a_bad_token_endpoint(url: str) -> None:
    message = fails(
        security__protocol="SASL_SSL",
        sasl__mechanism="OAUTHBEARER",
        sasl__jaas__config=OAUTH_JAAS,
        sasl__oauthbearer__token__endpoint__url=url,
    )
    assert message.startswith(f"option {TOKEN_URL} is not of the form https://")


def test_options_that_the_protocol_makes_no_use_of_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    assert security(ssl__key__password=SECRET, ssl__truststore__type="PEM") is PLAINTEXT
    assert caplog.messages == [
        "kafka.security.protocol=PLAINTEXT does not use kafka.ssl.truststore.type, kafka.ssl.key.password"
    ]
    assert SECRET not in caplog.text


@for_each(
    ("given", "name"),
    [
        ({"sasl__mechanism": "PLAIN"}, "kafka.sasl.mechanism"),
        ({"sasl__mechanism": "GSSAPI"}, "kafka.sasl.mechanism"),
        ({"sasl__jaas__config": PLAIN_JAAS}, "kafka.sasl.jaas.config"),
        ({"sasl__mechanism": "PLAIN", "sasl__jaas__config": PLAIN_JAAS}, "kafka.sasl.mechanism"),
        ({"sasl__oauthbearer__token__endpoint__url": "https://h/t"}, TOKEN_URL),
    ],
)
@for_each("protocol", [{}, {"security__protocol": "PLAINTEXT"}, {"security__protocol": "ssl"}])
def test_a_login_needs_its_protocol(protocol: dict[str, str], given: dict[str, str], name: str) -> None:
    """Java's clients do not log in then, and say nothing."""
    chosen = protocol.get("security__protocol", "PLAINTEXT").upper()
    assert fails(**protocol, **given) == (
        f"option {name}: kafka.security.protocol={chosen} does not log in; set "
        "kafka.security.protocol=SASL_SSL, or SASL_PLAINTEXT where brokers take logins without TLS, or leave "
        "the options of the login out"
    )


def test_secrets_travel_to_executors_and_are_shown_nowhere(certificates: Certificates) -> None:
    raw = {
        "kafka.bootstrap.servers": "a:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(certificates.authority),
        "kafka.ssl.keystore.location": str(certificates.client_encrypted),
        "kafka.ssl.key.password": KEY_PASSWORD,
    }
    for mechanism, jaas, url in (
        ("PLAIN", PLAIN_JAAS, None),
        ("SCRAM-SHA-512", SCRAM_JAAS, None),
        ("OAUTHBEARER", TOKEN_JAAS, None),
        ("OAUTHBEARER", OAUTH_JAAS, "https://h/t"),
    ):
        given = {**raw, "kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": jaas}
        if url:
            given[TOKEN_URL] = url
        for options in (ReadOptions.parse({**given, "subscribe": "t"}), WriteOptions.parse(given)):
            arrived = pickle.loads(pickle.dumps(options))
            assert arrived == options
            assert hash(arrived.net.connection) == hash(options.net.connection)
            assert SECRET.encode() in pickle.dumps(options)
            assert mechanism in repr(options)
            for text in (repr(options), str(options), f"{options}", repr(options.net.connection.security)):
                assert SECRET not in text
                assert KEY_PASSWORD not in text
                assert "BEGIN" not in text


def test_every_security_option_is_tried_here() -> None:
    here = Path(__file__).read_text()
    here += Path(__file__).with_name("test_logins.py").read_text()
    names = [
        option.name.removeprefix("kafka.")
        for option in OPTIONS
        if option.name.startswith(("kafka.ssl.", "kafka.sasl.", "kafka.security."))
    ]
    assert len(names) > 10
    assert [name for name in names if name.replace(".", "__") not in here and name not in here] == []


# --- Login modules as people write them, and errors that show nothing of them ---

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


def test_modules_are_known_by_their_last_name_and_hide_what_they_have() -> None:
    for module in (f"kafkashaded.{PLAIN}", "PlainLoginModule"):
        assert parse_jaas(f"{module} required;").module == "PlainLoginModule"
    assert "s3cret" not in repr(parse_jaas('PlainLoginModule required password="s3cret";'))


@for_each(
    "text",
    [
        "", ";", "s3cret", "PlainLoginModule", 'PlainLoginModule password="s3cret";',
        'KafkaClient { PlainLoginModule required password="s3cret"; };',
        'PlainLoginModule required password="s3cret', "PlainLoginModule required password='s3cret",
        'PlainLoginModule required password="s3cret\n";', "PlainLoginModule required password;",
        "PlainLoginModule required password=;", "PlainLoginModule required password==s3cret;",
        'PlainLoginModule required "s3cret";', 'PlainLoginModule required username="a", password="s3cret";',
        'PlainLoginModule required password="s3cret"; ScramLoginModule required password="s3cret";',
    ],
)  # fmt: skip
def test_bad_text_is_reported_and_not_shown(text: str) -> None:
    with pytest.raises(
        OptionError, match=r"^option kafka\.sasl\.jaas\.config: .* \(its value is not shown\)$"
    ) as error:
        parse_jaas(text)
    assert "s3cret" not in str(error.value)
    assert "\n" not in str(error.value)


@settings(deadline=None)
@given(st.text(max_size=60) | st.text("PlainLoginModule required=;\"'\\/* \n"))
def test_any_text_is_taken_or_reported(text: str) -> None:
    try:
        login = parse_jaas(text)
    except OptionError as error:
        reported = str(error)
    else:
        reported = "".join(f"{len(value)}" for value in login.options.values())
    assert len(reported.splitlines()) <= 1


# --- Options of logins with Kerberos: what they become, and which are refused ---

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


def raw(
    jaas: str | None, options: dict[str, str] | None = None, mechanism: str | None = "GSSAPI"
) -> dict[str, str]:
    named = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": None if jaas is None else f"{jaas};",
        **(SERVICE if options is None else options),
    }
    return {name: value for name, value in named.items() if value is not None}


def login(
    jaas: str, options: dict[str, str] | None = None, mechanism: str | None = "GSSAPI"
) -> KerberosLogin:
    given = {"bootstrap.servers": "a:9092", **raw(jaas, options, mechanism)}
    sasl = security(**given).sasl
    of_write = WriteOptions.parse({f"kafka.{name}": value for name, value in given.items()})
    assert of_write.net.connection.security.sasl == sasl
    assert sasl is not None
    assert sasl.mechanism == "GSSAPI"
    assert pickle.loads(pickle.dumps(sasl)) == sasl
    assert hash(sasl)
    assert isinstance(sasl.credentials, KerberosLogin)
    return sasl.credentials


def kerberos_fails(
    jaas: str | None, options: dict[str, str] | None = None, mechanism: str | None = "GSSAPI"
) -> str:
    return fails(**raw(jaas, options, mechanism))


def test_a_key_tab_or_a_ticket_cache_logs_in() -> None:
    made = KerberosLogin("kafka", "a@R", "/etc/a.keytab")
    assert login(KEY_TAB) == made
    assert login(KEY_TAB.replace("com.sun.security.auth.module.", "")) == made
    usual = "storeKey=true doNotPrompt=true debug=false refreshKrb5Config=true isInitiator=true"
    assert login(f"{KEY_TAB} useTicketCache=FALSE {usual}") == made
    assert login(CACHE) == KerberosLogin("kafka")
    named = f'{CACHE} ticketCache="tickets-of-a" principal="a@R" useKeyTab=false'
    assert login(named) == KerberosLogin("kafka", "a@R", None, "tickets-of-a")
    assert "does not log in; set" in kerberos_fails(None, {**SERVICE, "security.protocol": "SSL"}, None)


def test_the_name_of_the_service_is_in_either_place() -> None:
    made = KerberosLogin("broker")
    assert login(f'{CACHE} serviceName="broker"', {}) == made
    both = {"sasl.kerberos.service.name": "broker"}
    assert login(f'{CACHE} serviceName="broker"', both) == made
    assert "service.name is broker, but serviceName in kafka.sasl.jaas.config is other" in kerberos_fails(
        f'{CACHE} serviceName="other"', both
    )
    assert "kafka.sasl.kerberos.service.name is not set: set it to the first part" in kerberos_fails(
        CACHE, {}
    )
    for name in ("kafka/host", "kafka@R", "a b", "a\nb"):
        assert "is not a name of a service" in kerberos_fails(CACHE, {"sasl.kerberos.service.name": name})


def test_kerberos_is_the_login_of_options_that_are_those_of_kerberos() -> None:
    """Java's default is GSSAPI whatever the other options are."""
    assert login(KEY_TAB, mechanism=None) == login(KEY_TAB)
    assert login(f'{CACHE} serviceName="kafka"', {}, None) == KerberosLogin("kafka")
    assert "kafka.sasl.jaas.config is not set, and kafka.sasl.mechanism=GSSAPI needs it" in kerberos_fails(
        None, mechanism=None
    )
    plain = "PlainLoginModule required username='a' password='s3cret'"
    assert "kafka.sasl.mechanism is not set: set it to PLAIN or" in kerberos_fails(plain, {}, None)
    assert "begin it with Krb5LoginModule" in kerberos_fails(plain, SERVICE, None)


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
    assert message in kerberos_fails(jaas)


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
    read(**raw("PlainLoginModule required username='a' password='b'", SERVICE, "PLAIN"))
    assert caplog.messages == ["kafka.sasl.mechanism=PLAIN does not use kafka.sasl.kerberos.service.name"]


# --- Java's stores, versions and cipher suites, from options to the settings of TLS ---

ALL_1_3: Final = ",".join(TLS_1_3_SUITES)
GCM: Final = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
SECRETS: Final = (STORE_PASSWORD, KEY_OF_STORES, "PRIVATE KEY", "wrong-password")


@pytest.fixture(autouse=True)
def _warnings_come_again() -> None:
    warn_once.cache_clear()


def tls_read(**changes: str) -> ReadOptions:
    return read(security__protocol="SSL", **{f"ssl__{name}": value for name, value in changes.items()})


def tls_with(**changes: str) -> Tls:
    result = tls_read(**changes).net.connection.security.tls
    assert result is not None
    return result


def tls_fails(**changes: str) -> str:
    return fails(security__protocol="SSL", **{f"ssl__{name}": value for name, value in changes.items()})


def client(name: str, **more: str) -> dict[str, str]:
    key_password = CLIENT_STORES[name]
    return {
        "keystore__location": str(FOLDER / name),
        "keystore__password": STORE_PASSWORD,
        **({} if key_password is None else {"key__password": key_password}),
        **more,
    }


def trust(name: str, **more: str) -> dict[str, str]:
    return {"truststore__location": str(FOLDER / name), "truststore__password": STORE_PASSWORD, **more}


@for_each("name", CLIENT_STORES)
def test_a_key_store_travels_as_pem_without_its_passwords(name: str) -> None:
    options = tls_read(**client(name), **trust("trust.jks"))
    result = options.net.connection.security.tls
    assert result is not None
    assert (result.identity, result.key_password) == (pem_of("client.pem"), None)
    sent = pickle.dumps(options)
    assert STORE_PASSWORD.encode() not in sent
    assert KEY_OF_STORES.encode() not in sent
    assert b"BEGIN PRIVATE KEY" in sent
    for shown in (repr(options), str(options.net.connection.security)):
        assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize(
    ("store", "said", "logged"),
    [
        ("trust.p12", "JKS", ["type: the store is PKCS12, not JKS, and is read as that"]),
        ("trust.jks", "pkcs12", ["type: the store is JKS, not PKCS12, and is read as that"]),
        ("trust.jks", "PEM", ["type: the store is JKS, not PEM, and is read as that"]),
        ("authority.pem", "jks", ["type: the store is PEM, not JKS, and is read as that"]),
        ("trust.jks", "JKS", []),
        ("trust.jks", None, []),
        ("trust.p12", "pkcs12", []),
        ("trust.p12", None, []),
    ],
)
def test_a_wrong_type_is_logged_once_and_a_right_one_never(
    store: str, said: str | None, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    more = {} if store.endswith("pem") else {"truststore__password": STORE_PASSWORD}
    more |= {} if said is None else {"truststore__type": said}
    for _ in range(3):
        tls_with(truststore__location=str(FOLDER / store), **more)
    assert caplog.messages == [f"option kafka.ssl.truststore.{line}" for line in logged]


def test_the_password_of_a_store_of_pem_is_logged_as_unused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    for _ in range(3):
        tls_with(**trust("authority.pem"))
        tls_with(**client("client.p12", keystore__location=str(FOLDER / "client.pem")))
    assert caplog.messages == [
        "option kafka.ssl.truststore.password has no effect, because the store is PEM",
        "option kafka.ssl.keystore.password has no effect, because the store is PEM",
    ]


@pytest.mark.parametrize("kind", ["JCEKS", "bcfks", "BKS"])
def test_other_types_are_refused_by_name(kind: str) -> None:
    for store in ("truststore", "keystore"):
        message = tls_fails(**{f"{store}__type": kind})
        assert message.startswith(f"option kafka.ssl.{store}.type: {kind.upper()} stores are not supported; ")
    assert "'JKZ' is not JKS or PKCS12 or PEM" in tls_fails(truststore__type="jkz")


def test_errors_of_a_store_name_its_option_its_path_and_what_to_do() -> None:
    def at(name: str) -> str:
        return f"option kafka.ssl.keystore.location: '{FOLDER / name}': "

    wrong = tls_fails(**client("client.p12", keystore__password="wrong-password"))
    assert wrong == at("client.p12") + (
        "kafka.ssl.keystore.password is not its password, or the file is damaged; check both with "
        "keytool -list"
    )
    assert tls_fails(**trust("empty.jks")).startswith(
        f"option kafka.ssl.truststore.location: '{FOLDER / 'empty.jks'}': it has no certificate to trust"
    )


def test_a_password_needs_its_store() -> None:
    for store in ("truststore", "keystore"):
        message = tls_fails(**{f"{store}__password": STORE_PASSWORD})
        needed = f"kafka.ssl.{store}.location is not set; set it, too"
        assert message == f"option kafka.ssl.{store}.password is the password of a store, and {needed}"
    text = {"truststore__certificates": pem_of("authority.pem"), "truststore__password": STORE_PASSWORD}
    assert "kafka.ssl.truststore.location is not set; set it, too" in tls_fails(**text)


def test_report_a_certificate_that_openssl_refuses_with_its_file(tmp_path: Path) -> None:
    """Without a password nothing else shows that a JKS store is damaged."""
    data = bytearray((FOLDER / "trust.jks").read_bytes())
    start = data.index(b"\x30\x82")
    data[start] ^= 1
    path = tmp_path / "damaged.jks"
    path.write_bytes(data)
    message = tls_fails(truststore__location=str(path))
    assert message.startswith("options kafka.ssl.truststore.*: cannot read a certificate: ")
    assert message.endswith(f" (kafka.ssl.truststore.location is '{path}')")


def test_each_suite_has_the_name_that_openssl_says() -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not in PATH")
    listed = subprocess.run(
        [program, "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[0]: line.split()[2] for line in listed.splitlines()}
    assert {suite: names[suite] for suite in TLS_1_2_SUITES} == TLS_1_2_SUITES
    assert all(names[suite] == suite for suite in TLS_1_3_SUITES)


def test_the_suites_are_those_of_java() -> None:
    lines = (FOLDER / "suites-java-17.txt").read_text().split()
    assert {*TLS_1_2_SUITES, *TLS_1_3_SUITES, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"} == set(lines)


@pytest.mark.parametrize("given", ["", " ", " , ", "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"])
def test_no_suites_leave_the_choice_to_openssl(given: str) -> None:
    assert tls_with(cipher__suites=given).limits == TlsLimits()


def offered(found: Tls) -> list[str]:
    """The suites of TLS 1.2 that OpenSSL offers, in its order."""
    return [str(item["name"]) for item in context(found).get_ciphers() if item["protocol"] != "TLSv1.3"]


def test_suites_are_offered_in_order_or_refused() -> None:
    suites = "tls_ecdhe_rsa_with_aes_128_gcm_sha256 , TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    result = tls_with(cipher__suites=suites)
    assert offered(result) == ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"]
    made = context(result)
    assert (made.minimum_version, made.maximum_version) == (TLSVersion.TLSv1_2, TLSVersion.TLSv1_2)
    made = context(tls_with(cipher__suites=f"{ALL_1_3},{GCM}"))
    assert (made.minimum_version, made.maximum_version) == (TLSVersion.TLSv1_2, TLSVersion.MAXIMUM_SUPPORTED)
    made = context(tls_with(cipher__suites=ALL_1_3))
    assert (made.minimum_version, made.maximum_version) == (TLSVersion.TLSv1_3, TLSVersion.MAXIMUM_SUPPORTED)
    assert tls_fails(cipher__suites=f"TLS_AES_256_GCM_SHA384,{GCM}") == (
        "option kafka.ssl.cipher.suites: Python cannot choose suites of TLS 1.3, all of them are offered: "
        "leave TLS_AES_256_GCM_SHA384 out, which leaves TLS 1.2 only, or name "
        "TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"
    )
    # Without TLS 1.3 they have no effect, as in Java.
    result = tls_with(cipher__suites=f"TLS_AES_256_GCM_SHA384,{GCM}", enabled__protocols="TLSv1.2")
    assert offered(result) == ["ECDHE-RSA-AES256-GCM-SHA384"]
    assert tls_fails(cipher__suites=f"{GCM},TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA38") == (
        "option kafka.ssl.cipher.suites: 'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA38' is no cipher suite of TLS "
        f"1.2 by its name in Java; did you mean {GCM}?"
    )
    assert tls_fails(cipher__suites="NULL").endswith("by its name in Java; leave it out")


def test_suites_that_this_openssl_lacks_are_refused() -> None:
    lacking = TlsLimits(suites=("ECDHE-RSA-AES256-GCM-SHA384", "NO-SUCH-SUITE"))
    for limits in (lacking, TlsLimits(suites=("NO-SUCH-SUITE",))):
        with pytest.raises(OptionError) as error:
            context(Tls(limits=limits))
        assert str(error.value) == (
            f"option kafka.ssl.cipher.suites: {ssl.OPENSSL_VERSION} of this machine does not offer "
            "NO-SUCH-SUITE (OpenSSL's names); leave them out"
        )


@for_each(
    ("given", "lowest", "highest"),
    [
        ({}, 2, 3),
        ({"enabled__protocols": ""}, 2, 3),
        ({"enabled__protocols": "TLSv1.2,TLSv1.3"}, 2, 3),
        ({"enabled__protocols": " tlsv1.3 , TLSv1.2 "}, 2, 3),
        ({"enabled__protocols": "TLSv1.2"}, 2, 2),
        ({"enabled__protocols": "TLSv1.3"}, 3, 3),
        ({"protocol": "TLS"}, 2, 3),
        ({"protocol": "SSL"}, 2, 3),
        ({"protocol": "TLSv1.3"}, 2, 3),
        ({"protocol": "TLSv1.2"}, 2, 2),
        ({"protocol": "TLSv1.2", "enabled__protocols": "TLSv1.2,TLSv1.3"}, 2, 2),
    ],
)
def test_versions_are_those_that_the_options_leave(given: dict[str, str], lowest: int, highest: int) -> None:
    version = {2: TLSVersion.TLSv1_2, 3: TLSVersion.TLSv1_3}
    result = tls_with(**given)
    assert result.limits == TlsLimits(version[lowest], version[highest])
    made = context(result)
    assert made.minimum_version == version[lowest]
    assert made.maximum_version == (version[2] if highest == 2 else TLSVersion.MAXIMUM_SUPPORTED)


def test_older_versions_are_left_out_with_a_line_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    for _ in range(3):
        result = tls_with(enabled__protocols="TLSv1.2,TLSv1.1,TLSv1")
        assert result.limits.highest == TLSVersion.TLSv1_2
    assert caplog.messages == [
        "option kafka.ssl.enabled.protocols: versions before TLS 1.2 are not supported and are left out"
    ]
    assert tls_fails(enabled__protocols="TLSv1,TLSv1.1") == (
        "option kafka.ssl.enabled.protocols: 'TLSv1,TLSv1.1': versions before TLS 1.2 are not supported; set "
        "TLSv1.2,TLSv1.3"
    )
    assert tls_fails(protocol="TLSv1.1") == (
        "option kafka.ssl.protocol: 'TLSV1.1' is not TLSv1.2 or TLSv1.3: older ones are not supported"
    )
    assert "'TLSV1.4' is not TLSv1.2 or TLSv1.3" in tls_fails(enabled__protocols="TLSv1.2,TLSv1.4")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"protocol": "TLSv1.2", "enabled__protocols": "TLSv1.3"}, ("enabled.protocols", "protocol")),
        ({"cipher__suites": GCM, "enabled__protocols": "TLSv1.3"}, ("enabled.protocols", "cipher.suites")),
        ({"cipher__suites": ALL_1_3, "protocol": "TLSv1.2"}, ("protocol", "cipher.suites")),
    ],
)
def test_report_options_that_leave_no_version(given: dict[str, str], named: tuple[str, ...]) -> None:
    names = " and ".join(f"kafka.ssl.{name}" for name in named)
    remedy = "set versions and suites that go together"
    assert tls_fails(**given) == f"options {names} leave no version of TLS; {remedy}"


def test_options_of_another_peer_have_their_own_names_in_errors() -> None:
    names = RegistryTls
    given = {
        "schema.registry.ssl.keystore.location": str(FOLDER / "client.jks"),
        "schema.registry.ssl.keystore.password": STORE_PASSWORD,
        "schema.registry.ssl.truststore.location": str(FOLDER / "trust.jks"),
    }
    with pytest.raises(OptionError) as error:
        tls.tls_of(RawOptions(given, names.options(), ()), names, OF_REGISTRY)
    assert str(error.value) == (
        f"option schema.registry.ssl.keystore.location: '{FOLDER / 'client.jks'}': its key has another "
        "password than the store; set schema.registry.ssl.key.password"
    )
    given["schema.registry.ssl.key.password"] = KEY_OF_STORES
    result = tls.tls_of(RawOptions(given, names.options(), ()), names, OF_REGISTRY)
    assert (result.identity, result.names) == (pem_of("client.pem"), OF_REGISTRY)
