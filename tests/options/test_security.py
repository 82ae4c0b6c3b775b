"""Security options become settings that hold every secret and show none."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.logins.delegation_token import DelegationToken
from spark_kafkawire.net.logins.mechanism import Password
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.tokens.client_credentials import ClientCredentials
from spark_kafkawire.net.logins.tokens.token import FixedToken
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import PLAINTEXT, Security
from spark_kafkawire.net.tls import Tls, context
from spark_kafkawire.options import OPTIONS, ReadOptions, WriteOptions
from tests.support.cases import for_each
from tests.support.certificates import KEY_PASSWORD, Certificates

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
    assert "\n" not in message
    assert SECRET not in message
    assert KEY_PASSWORD not in message
    assert "-----BEGIN" not in message.replace("-----BEGIN …-----", "")
    return message


def sasl(mechanism: str, jaas: str, **changes: str) -> Sasl | None:
    return security(
        security__protocol="SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__jaas__config=jaas, **changes
    ).sasl


def pem(path: Path, part: str) -> str:
    """Key or certificates of a file that holds both."""
    key, begin, chain = path.read_text().partition("-----BEGIN CERT")
    return key if part == "key" else begin + chain


def test_nothing_is_encrypted_and_nobody_logs_in_by_default() -> None:
    assert security() is PLAINTEXT
    assert security(security__protocol=" plaintext ") is PLAINTEXT


def test_ssl_alone_trusts_what_the_system_trusts_and_checks_host_names() -> None:
    assert security(security__protocol="SSL") == Security(tls=Tls())


def test_the_check_of_host_names_is_given_up_by_nothing() -> None:
    for value in ("", " "):
        chosen = security(security__protocol="SSL", ssl__endpoint__identification__algorithm=value).tls
        assert chosen == Tls(checks_host_name=False)
    assert "'none' is not https, or nothing" in fails(
        security__protocol="SSL", ssl__endpoint__identification__algorithm="none"
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


def test_text_may_stand_in_an_option_with_its_lines_in_one(certificates: Certificates) -> None:
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


def test_bad_files_are_told(tmp_path: Path) -> None:
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
def test_an_empty_path_of_a_store_is_told_with_what_it_is_without(path: str) -> None:
    for protocol in ("SSL", "ssl"):
        assert fails(security__protocol=protocol, ssl__truststore__location=path) == (
            "option kafka.ssl.truststore.location: the path is empty; give that of a store that is on the "
            "driver, or leave the option out to trust the system's authorities"
        )
        assert fails(security__protocol=protocol, ssl__keystore__location=path) == (
            "option kafka.ssl.keystore.location: the path is empty; give that of a store that is on the "
            "driver, or leave the option out where the server asks for no certificate of the client"
        )


def test_options_that_go_together_are_told_apart(certificates: Certificates) -> None:
    client, authority = str(certificates.client), str(certificates.authority)
    assert "kafka.ssl.truststore.location and kafka.ssl.truststore.certificates are given" in fails(
        security__protocol="SSL", ssl__truststore__location=authority, ssl__truststore__certificates="x"
    )
    assert "kafka.ssl.keystore.location and kafka.ssl.keystore.key are given" in fails(
        security__protocol="SSL", ssl__keystore__location=client, ssl__keystore__key="x"
    )
    assert "option kafka.ssl.keystore.key needs kafka.ssl.keystore.certificate.chain" in fails(
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


def test_the_token_endpoint_is_trusted_as_brokers_are(certificates: Certificates) -> None:
    chosen = security(
        security__protocol="SASL_SSL",
        ssl__truststore__location=str(certificates.authority),
        sasl__mechanism="OAUTHBEARER",
        sasl__jaas__config=OAUTH_JAAS,
        sasl__oauthbearer__token__endpoint__url="https://h/t",
    )
    assert chosen.sasl is not None
    assert isinstance(chosen.sasl.credentials, Bearer)
    assert isinstance(chosen.sasl.credentials.source, ClientCredentials)
    assert chosen.sasl.credentials.source.tls == Tls(certificates.authority.read_text())


@for_each(
    ("mechanism", "jaas", "message"),
    [
        ("", PLAIN_JAAS, "option kafka.sasl.mechanism: set PLAIN or SCRAM"),
        ("GSSAPI", PLAIN_JAAS, "its login module is not Krb5LoginModule, which belongs to"),
        ("AWS_MSK_IAM", PLAIN_JAAS, "its login module is not IAMLoginModule, which belongs to"),
        ("PLAIN", SCRAM_JAAS, "its login module is not PlainLoginModule, which belongs to"),
        ("SCRAM-SHA-256", PLAIN_JAAS, "its login module is not ScramLoginModule"),
        ("OAUTHBEARER", PLAIN_JAAS, "its login module is not OAuthBearerLoginModule"),
        ("PLAIN", f'{SECRET} required username="a";', "its login module is not PlainLoginModule"),
        ("PLAIN", f'PlainLoginModule required password="{SECRET}";', 'give it username="…"'),
        ("PLAIN", 'PlainLoginModule required username="a" password="";', 'give it password="…"'),
        ("PLAIN", f'PlainLoginModule required username="a" password="{SECRET}\\0";', 'password="…"'),
        ("OAUTHBEARER", OAUTH_JAAS, f'give it token="…", or set {TOKEN_URL} with '),
        ("OAUTHBEARER", f'OAuthBearerLoginModule required token="{SECRET} x";', "not one word of ASCII"),
        ("OAUTHBEARER", TOKEN_JAAS.replace("logical", "logical-"), "the name of an extension has letters"),
        ("PLAIN", SECRET, "it does not begin with a login module"),
    ],
)
def test_a_bad_login_is_told(mechanism: str, jaas: str, message: str) -> None:
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
        with pytest.raises(OptionError, match="option delegationTokens: this work sends the options"):
            pickle.dumps(whole)
    travels = pickle.dumps(options.of_tasks)
    assert SECRET.encode() not in travels
    assert pickle.loads(travels).net.connection.security.sasl is None
    token = Sasl("SCRAM-SHA-512", DelegationToken("id", "hmac", 1.0))
    assert pickle.loads(pickle.dumps(options.net.with_token(token))).connection.security.sasl == token
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


def test_a_login_that_is_missing_is_told() -> None:
    assert "option kafka.sasl.jaas.config: set it" in fails(
        security__protocol="SASL_SSL", sasl__mechanism="PLAIN"
    )


@for_each(
    "url",
    ["", "http://h/t", "h/t", "https://", "https://h:x/t", "https://h:70000/t", f"https://u:{SECRET}@h/t",
     "https://h/a b", "https://h/\r\nX: y"],
)  # fmt: skip
def test_a_bad_token_endpoint_is_told(url: str) -> None:
    message = fails(
        security__protocol="SASL_SSL",
        sasl__mechanism="OAUTHBEARER",
        sasl__jaas__config=OAUTH_JAAS,
        sasl__oauthbearer__token__endpoint__url=url,
    )
    assert message.startswith(f"option {TOKEN_URL}: not of the form https://")


def test_an_unknown_protocol_is_told() -> None:
    assert (
        "option kafka.security.protocol: 'TLS' is not PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"
        in fails(security__protocol="tls")
    )


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
def test_a_login_without_a_protocol_that_logs_in_is_an_error(
    protocol: dict[str, str], given: dict[str, str], name: str
) -> None:
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
            for text in (repr(options), str(options), f"{options}", repr(options.net.connection.security)):
                assert SECRET not in text
                assert KEY_PASSWORD not in text
                assert "BEGIN" not in text


def test_every_security_option_is_tried_here() -> None:
    here = Path(__file__).read_text()
    here += Path(__file__).with_name("test_tls.py").read_text()
    here += Path(__file__).with_name("test_logins.py").read_text()
    here += Path(__file__).with_name("test_kerberos.py").read_text()
    names = [
        option.name.removeprefix("kafka.")
        for option in OPTIONS
        if option.name.startswith(("kafka.ssl.", "kafka.sasl.", "kafka.security."))
    ]
    assert len(names) > 10
    assert [name for name in names if name.replace(".", "__") not in here and name not in here] == []
