"""Options of bearer tokens: what sources they become, and which are refused."""

from __future__ import annotations

import contextlib
import logging
import pickle
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.logins.aws import AwsLogin, Keys, MskToken
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.tokens.clouds import AzureToken, GoogleToken
from spark_kafkawire.net.logins.tokens.oauth import (
    IN_OPTIONS,
    Claims,
    ClientCredentials,
    JwtAssertion,
    Patience,
    Signer,
)
from spark_kafkawire.net.logins.tokens.token import FixedToken, Renewal, TokenFile, TokenProvider
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.secrecy import Credentials
from tests.support.cases import for_each

SECRET: Final = "s3cret"
URL: Final = "https://login.example/token"
ENDPOINT: Final = {"sasl.oauthbearer.token.endpoint.url": URL}
JAAS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
CLIENT: Final = {
    **ENDPOINT,
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
}
MADE: Final = ClientCredentials(URL, "me", SECRET, names=IN_OPTIONS)
KAFKA: Final = "org.apache.kafka.common.security"
#: The names of logins with tokens that kafka-clients 4.1.1 has, from the constants of its class SaslConfigs.
NAMES: Final = (
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.claim.aud", "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.nbf.seconds", "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.login.callback.handler.class", "sasl.login.class", "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms",
    "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds",
    "sasl.client.callback.handler.class",
)  # fmt: skip
HANDLER: Final = "sasl.login.callback.handler.class"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"


def login(options: dict[str, str], mechanism: str = "OAUTHBEARER") -> Credentials:
    """The login of a read with these options of Kafka's, written without ``kafka.``."""
    raw = {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        **options,
    }
    own = {name: raw.pop(name) for name in list(raw) if name.startswith("saslToken")}
    named = {f"kafka.{name}": value for name, value in raw.items()}
    sasl = ReadOptions.parse({"subscribe": "t", **named, **own}).net.connection.security.sasl
    assert sasl is not None
    assert sasl.mechanism == mechanism
    assert SECRET not in repr(sasl)
    assert pickle.loads(pickle.dumps(sasl)) == sasl
    assert hash(sasl)
    return sasl.credentials


def bearer(options: dict[str, str]) -> Bearer:
    result = login(options)
    assert isinstance(result, Bearer)
    return result


def fails(options: dict[str, str], mechanism: str = "OAUTHBEARER") -> str:
    with pytest.raises(OptionError) as error:
        login(options, mechanism)
    message = str(error.value)
    assert "\n" not in message
    assert SECRET not in message
    assert message.startswith("option")
    return message


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("keys")
    made: dict[str, Any] = {
        "rsa": rsa.generate_private_key(65537, 2048),
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
    }
    paths = {}
    for name, key in made.items():
        for password in ("", SECRET):
            how = (
                serialization.BestAvailableEncryption(password.encode())
                if password
                else serialization.NoEncryption()
            )
            pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
            path = folder / f"{name}{'-locked' if password else ''}.pem"
            path.write_bytes(pem)
            paths[path.stem] = path
    return paths


def test_client_credentials_need_no_login_module() -> None:
    assert bearer(CLIENT) == Bearer(MADE)
    assert bearer({**CLIENT, "sasl.jaas.config": f"{JAAS};"}) == Bearer(MADE)
    jaas = f'{JAAS} clientId="other" clientSecret="other" scope="a" extension_logicalCluster="lkc";'
    whole = {**CLIENT, "sasl.jaas.config": jaas, "sasl.oauthbearer.scope": "b c"}
    made = ClientCredentials(URL, "me", SECRET, "b c", names=IN_OPTIONS)
    assert bearer(whole) == Bearer(made, (("logicalCluster", "lkc"),))
    del whole["sasl.oauthbearer.client.credentials.client.id"]
    source = bearer(whole).source
    assert isinstance(source, ClientCredentials)
    assert (source.client_id, source.client_secret) == ("other", SECRET)


def test_how_an_endpoint_is_asked_is_read() -> None:
    patient = {
        "sasl.login.connect.timeout.ms": "2000",
        "sasl.login.read.timeout.ms": "3s",
        "sasl.login.retry.backoff.ms": "50",
        "sasl.oauthbearer.header.urlencode": "true",
    }
    source = bearer({**CLIENT, **patient}).source
    assert isinstance(source, ClientCredentials)
    assert source.patience == Patience(2.0, 3.0, 0.05, 10.0)
    assert source.encodes_header
    longer = bearer({**CLIENT, "sasl.login.retry.backoff.max.ms": "20000"}).source
    assert isinstance(longer, ClientCredentials)
    assert longer.patience == Patience(None, None, 0.1, 20.0)


def test_when_tokens_are_renewed_is_read() -> None:
    renewal = {
        "sasl.login.refresh.window.factor": "0.6",
        "sasl.login.refresh.window.jitter": "0.05",
        "sasl.login.refresh.min.period.seconds": "60",
        "sasl.login.refresh.buffer.seconds": "300",
    }
    assert bearer({**CLIENT, **renewal}).renewal == Renewal(0.6, 0.05, 60.0, 300.0)
    for name, value in (
        ("window.factor", "0.4"),
        ("window.factor", "nan"),
        ("window.jitter", "0.3"),
        ("min.period.seconds", "901"),
        ("buffer.seconds", "-1"),
    ):
        name = f"sasl.login.refresh.{name}"
        assert f"option kafka.{name}: '{value}' is not a" in fails({**CLIENT, name: value})


def test_a_url_of_a_file_is_a_file_of_a_token() -> None:
    for url in (
        "file:///var/run/a%20token",
        " FILE:/var/run/a%20token",
        "file://localhost/var/run/a%20token",
    ):
        assert bearer({"sasl.oauthbearer.token.endpoint.url": url}).source == TokenFile("/var/run/a token")
    for url in ("file://elsewhere/token", "file:token", "file:", "file:///a%00b"):
        assert "not of the form file:///path" in fails({"sasl.oauthbearer.token.endpoint.url": url})


def test_an_assertion_is_signed_with_a_key_of_the_driver(keys: dict[str, Path], tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k1"}, "payload": {"tenant": "t", "sub": "other"}}')
    options = {
        **ENDPOINT,
        "sasl.oauthbearer.assertion.private.key.file": str(keys["p256-locked"]),
        "sasl.oauthbearer.assertion.private.key.passphrase": SECRET,
        "sasl.oauthbearer.assertion.algorithm": "es256",
        "sasl.oauthbearer.assertion.template.file": str(template),
        "sasl.oauthbearer.assertion.claim.aud": "kafka",
        "sasl.oauthbearer.assertion.claim.iss": "me",
        "sasl.oauthbearer.assertion.claim.sub": "me",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "120",
        "sasl.oauthbearer.assertion.claim.nbf.seconds": "30",
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
        "sasl.oauthbearer.scope": "kafka",
    }
    source = bearer(options).source
    claims = Claims(
        (("aud", "kafka"), ("iss", "me"), ("sub", "me")),
        '{"kid": "k1"}',
        '{"tenant": "t", "sub": "other"}',
        120.0,
        30.0,
        has_id=True,
    )
    assert source == JwtAssertion(
        URL, Signer("ES256", keys["p256-locked"].read_text(), SECRET), claims, scope="kafka"
    )
    assert "BEGIN" not in repr(source)


def test_an_assertion_may_be_in_a_file() -> None:
    options = {**ENDPOINT, "sasl.oauthbearer.assertion.file": "/run/assertion"}
    made = JwtAssertion(URL, assertion_file="/run/assertion")
    assert bearer(options).source == made
    assert bearer({**options, RETRIEVER: f"{KAFKA}.oauthbearer.JwtBearerJwtRetriever"}).source == made


@pytest.mark.parametrize(
    ("key", "more", "message"),
    [
        ("rsa", {"algorithm": "ES256"}, "its key is not one for ES256; RS256 signs"),
        ("p256", {}, "its key is not one for RS256; RS256 signs"),
        ("p384", {"algorithm": "ES256"}, "ES256 with one of the curve P-256"),
        ("rsa-locked", {}, "the private key is encrypted; set its passphrase"),
        (
            "rsa-locked",
            {"private.key.passphrase": f"not {SECRET}"},
            "it holds no private key in PEM, which begins",
        ),
        ("rsa", {"private.key.passphrase": SECRET}, "is not encrypted; leave the passphrase out"),
        ("rsa", {"algorithm": "HS256"}, "'hs256' is not rs256 or es256"),
    ],
)
def test_a_bad_key_is_reported(key: str, more: dict[str, str], message: str, keys: dict[str, Path]) -> None:
    name = "sasl.oauthbearer.assertion"
    given = {f"{name}.private.key.file": str(keys[key]), **{f"{name}.{k}": v for k, v in more.items()}}
    assert message in fails({**ENDPOINT, **given})


def test_bad_files_of_assertions_are_reported(keys: dict[str, Path], tmp_path: Path) -> None:
    name = "sasl.oauthbearer.assertion"
    assert "No such file or directory" in fails({**ENDPOINT, f"{name}.private.key.file": "/no/such"})
    bad = tmp_path / "bad"
    given = {**ENDPOINT, f"{name}.private.key.file": str(keys["rsa"]), f"{name}.template.file": str(bad)}
    for text in ("", "[1]", '{"header": 1}', "[" * 100_000):
        bad.write_text(text)
        assert "is not a JSON object of the objects header and payload" in fails(given)
    bad.write_bytes(bytes(2 << 20))
    assert "is longer than 1048576 bytes" in fails(given)
    del given[f"{name}.template.file"]
    for value in ("0", "x", "86401"):
        assert "exp.seconds: " in fails({f"{name}.claim.exp.seconds": value, **given})


def test_without_cryptography_an_extra_is_named(
    keys: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    message = fails({**ENDPOINT, "sasl.oauthbearer.assertion.private.key.file": str(keys["rsa"])})
    assert "run pip install cryptography" in message


def test_a_function_gives_tokens() -> None:
    assert bearer({"saslTokenProvider": " my.tokens:kafka "}) == Bearer(TokenProvider("my.tokens:kafka"))
    for name in ("my.tokens", "my tokens:f", ":f", "m:", "m:f()", "__import__('os'):x", "a" * 10_000):
        assert "' is not of the form package.module:function" in fails({"saslTokenProvider": name})


@for_each(
    ("name", "known"),
    [
        (HANDLER, f"{KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler"),
        (HANDLER, f"{KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"),
        ("sasl.login.class", f"{KAFKA}.authenticator.DefaultLogin"),
        ("sasl.login.class", f"{KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin"),
        (RETRIEVER, f"{KAFKA}.oauthbearer.DefaultJwtRetriever"),
        (RETRIEVER, f"{KAFKA}.oauthbearer.ClientCredentialsJwtRetriever"),
        ("sasl.oauthbearer.jwt.validator.class", f"{KAFKA}.oauthbearer.DefaultJwtValidator"),
        ("sasl.oauthbearer.jwt.validator.class", f"{KAFKA}.oauthbearer.ClientJwtValidator"),
    ],
)
def test_classes_of_kafka_choose_what_they_do_in_java(name: str, known: str) -> None:
    assert bearer({**CLIENT, name: known}) == Bearer(MADE)
    message = fails({**CLIENT, name: "com.acme.Tokens"})
    assert message.startswith(f"option kafka.{name}: 'com.acme.Tokens' is not one of")
    assert "Java classes are not run here" in message


def test_handlers_of_others_and_two_sources_are_errors() -> None:
    for name in (HANDLER, "sasl.client.callback.handler.class", RETRIEVER):
        message = fails({**CLIENT, name: "com.acme.Tokens"})
        assert "saslTokenProvider=package.module:function" in message
        assert "kafka.sasl.oauthbearer.token.endpoint.url" in message
    message = fails({HANDLER: "com.acme.Keys"}, "AWS_MSK_IAM")
    assert "'com.acme.Keys' is not one of" in message
    assert "leave the option out" in fails({"saslTokenProvider": "m:f"}, "AWS_MSK_IAM")
    given = {"saslTokenProvider": "m:f", RETRIEVER: f"{KAFKA}.oauthbearer.FileJwtRetriever"}
    assert (
        "options saslTokenProvider and kafka.sasl.oauthbearer.jwt.retriever.class choose different"
        in fails(given)
    )


def test_a_retriever_without_what_it_needs_is_reported() -> None:
    for name in ("ClientCredentials", "File", "JwtBearer"):
        retriever = {RETRIEVER: f"{KAFKA}.oauthbearer.{name}JwtRetriever"}
        assert "set" in fails(retriever)
    assert "private.key.file is not set: set it, or kafka.sasl.oauthbearer.assertion.file" in fails(
        {**ENDPOINT, RETRIEVER: f"{KAFKA}.oauthbearer.JwtBearerJwtRetriever"}
    )
    assert 'give it clientId="…", or set kafka.sasl.oauthbearer.client.credentials.client.id' in fails(
        ENDPOINT
    )
    half = {**CLIENT}
    del half["sasl.oauthbearer.client.credentials.client.secret"]
    assert "client.secret is not set, and the login needs it: set it, too" in fails(half)
    empty = {**CLIENT, "sasl.oauthbearer.client.credentials.client.secret": ""}
    assert "client.secret is empty" in fails(empty)


def test_options_that_a_source_does_not_use_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    fixed = bearer({"sasl.jaas.config": f'{JAAS} token="{SECRET}";', "sasl.oauthbearer.scope": "x"})
    assert fixed == Bearer(FixedToken(SECRET))
    assert caplog.messages == ["tokens of kafka.sasl.jaas.config do not use kafka.sasl.oauthbearer.scope"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("saslTokenProvider", "m:f"),
        (HANDLER, f"{KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler"),
        ("sasl.client.callback.handler.class", "software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
    ],
)
def test_a_login_with_a_password_has_no_source_of_tokens(name: str, value: str) -> None:
    jaas = f'{KAFKA}.plain.PlainLoginModule required username="u" password="{SECRET}";'
    message = fails({"sasl.jaas.config": jaas, name: value}, "PLAIN")
    assert message.endswith("takes its credentials from kafka.sasl.jaas.config alone; leave the option out")


def test_no_option_of_bearer_tokens_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    for name in NAMES:
        with contextlib.suppress(OptionError):
            bearer({**CLIENT, name: CLIENT.get(name, "1")})
    assert [message for message in caplog.messages if "is ignored" in message] == []


def test_googles_handler_and_words_choose_sources_of_clouds() -> None:
    google = {HANDLER: "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"}
    assert bearer(google) == bearer({"saslTokenProvider": "google"}) == Bearer(GoogleToken())
    scope = "https://ns.servicebus.windows.net/.default"
    azure = {"saslTokenProvider": "azure", "sasl.oauthbearer.scope": scope}
    assert bearer(azure) == Bearer(AzureToken(scope))
    assert "needs a scope that ends in /.default, such as https://" in fails({"saslTokenProvider": "azure"})


# Amazon MSK

IAM: Final = "software.amazon.msk.auth.iam"
IAM_JAAS: Final = f"{IAM}.IAMLoginModule required"


def test_the_lines_of_amazons_page_are_read_as_they_are() -> None:
    handler = {"sasl.client.callback.handler.class": f"{IAM}.IAMClientCallbackHandler"}
    assert login({"sasl.jaas.config": f"{IAM_JAAS};", **handler}, "AWS_MSK_IAM") == AwsLogin()
    assert login({}, "AWS_MSK_IAM") == AwsLogin()
    profile = f'{IAM_JAAS} awsProfileName="dev";'
    assert login({"sasl.jaas.config": profile, **handler}, "AWS_MSK_IAM") == AwsLogin("dev")
    role = (
        f'{IAM_JAAS} awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsRoleExternalId="e" '
        f'awsStsRegion="eu-west-1" awsRoleAccessKeyId="A" awsRoleSecretAccessKey="{SECRET}" '
        f'awsRoleSessionToken="{SECRET}";'
    )
    keys = Keys("A", SECRET, SECRET)
    made = AwsLogin(None, "arn:aws:iam::1:role/r", "s", "e", keys, "eu-west-1")
    assert login({"sasl.jaas.config": role, **handler}, "AWS_MSK_IAM") == made


def test_a_token_for_msk_is_chosen_by_amazons_handler_or_by_a_word() -> None:
    jaas = {"sasl.jaas.config": f'{JAAS} awsProfileName="dev";'}
    handlers = {
        HANDLER: f"{IAM}.IAMOAuthBearerLoginCallbackHandler",
        "sasl.client.callback.handler.class": f"{IAM}.IAMOAuthBearerLoginCallbackHandler",
    }
    assert bearer({**jaas, **handlers}) == Bearer(MskToken(AwsLogin("dev")))
    assert bearer({**jaas, "saslTokenProvider": "aws"}) == Bearer(MskToken(AwsLogin("dev")))
    assert bearer(handlers) == Bearer(MskToken(AwsLogin()))


@for_each(
    ("options", "message"),
    [
        (
            'awsProfilName="dev"',
            "it has the unknown option awsProfilName; known are awsProfileName, awsRoleArn",
        ),
        ('awsProfileName=""', "its option awsProfileName is empty"),
        ('awsRoleArn="a\\nb"', "its option awsRoleArn is empty, or not of printable ASCII"),
        ('awsRoleSessionName="s"', "its option awsRoleSessionName needs awsRoleArn"),
        (
            'awsRoleArn="a" awsRoleAccessKeyId="A"',
            "awsRoleAccessKeyId and awsRoleSecretAccessKey need each other",
        ),
        (f'awsRoleArn="a" awsRoleSecretAccessKey="{SECRET}"', "need each other"),
        (f'awsRoleArn="a" awsRoleSessionToken="{SECRET}"', "awsRoleSessionToken needs both"),
        ('awsRoleArn="a" awsProfileName="p"', "it has awsProfileName and awsRoleArn; give one of them"),
    ],
)
def test_bad_options_of_amazons_login_module_are_reported(options: str, message: str) -> None:
    assert message in fails({"sasl.jaas.config": f"{IAM_JAAS} {options};"}, "AWS_MSK_IAM")
    oauth = {"sasl.jaas.config": f"{JAAS} {options};", "saslTokenProvider": "aws"}
    assert message in fails(oauth)


def test_options_of_amazon_without_an_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    jaas = f'{IAM_JAAS} awsDebugCreds="true" awsMaxRetries="3";'
    assert login({"sasl.jaas.config": jaas}, "AWS_MSK_IAM") == AwsLogin()
    assert caplog.messages == [
        "option kafka.sasl.jaas.config: kafkawire does not use awsDebugCreds, awsMaxRetries"
    ]
