"""Options of TLS and login to modern brokers, under the names that Kafka's Java clients have for them.

The modules ``tls`` and ``credentials`` read their values. Only connections that are encrypted or log in
import them. Java's classes are not run: those that are known choose a source of tokens here, and all others
are errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ..errors import LOG, OptionError, quoted
from ..model import Generation
from .option import (
    BLANKS,
    MODERN,
    Kind,
    Option,
    RawOptions,
    Secrets,
    bad_value,
    capitals,
    count,
    flag,
    mapped,
    option,
    seconds,
    string,
    whole,
    word,
)

_OAUTH: Final = "kafka.sasl.oauthbearer"
_ASSERTION: Final = f"{_OAUTH}.assertion"
_LOGIN: Final = "kafka.sasl.login"
_KAFKA: Final = "org.apache.kafka.common.security"
PROVIDER_NAME: Final = "saslTokenProvider"
_INSTEAD: Final = (
    "Java classes are not run here. For tokens of an authorization server, set "
    f"{_OAUTH}.token.endpoint.url; for all others {PROVIDER_NAME}=package.module:function, a function in "
    "Python that returns (token, expires_at_seconds)"
)

#: Sources of tokens that a class of Java or ``saslTokenProvider`` names.
AWS: Final = "aws"
GOOGLE: Final = "google"
AZURE: Final = "azure"
#: The source that the other options choose.
BY_OPTIONS: Final = ""
CLIENT: Final = "client credentials"
FILE: Final = "file"
ASSERTION: Final = "assertion"

#: Java's callback handlers, each with its source of tokens.
_HANDLERS: Final = {
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler": BY_OPTIONS,
    f"{_KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler": BY_OPTIONS,
    f"{_KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler": BY_OPTIONS,
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": AWS,
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": AWS,
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": GOOGLE,
}
#: Java's retrievers of tokens, each with its source.
_RETRIEVERS: Final = {
    f"{_KAFKA}.oauthbearer.DefaultJwtRetriever": BY_OPTIONS,
    f"{_KAFKA}.oauthbearer.ClientCredentialsJwtRetriever": CLIENT,
    f"{_KAFKA}.oauthbearer.FileJwtRetriever": FILE,
    f"{_KAFKA}.oauthbearer.JwtBearerJwtRetriever": ASSERTION,
}
#: Java's checks of a token by the client. Brokers check tokens in any case.
_VALIDATORS: Final = dict.fromkeys(
    (f"{_KAFKA}.oauthbearer.DefaultJwtValidator", f"{_KAFKA}.oauthbearer.ClientJwtValidator"), BY_OPTIONS
)
_LOGINS: Final = dict.fromkeys(
    (
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    ),
    BY_OPTIONS,
)


def _java_class(known: Mapping[str, str], instead: str) -> Kind[str]:
    """A class of Java, as the source of tokens that replaces it. An unknown one is an error."""

    def parse(name: str, given: str) -> str:
        found = given.strip(BLANKS)
        if found not in known:
            listed = ", ".join(dict.fromkeys(each.rpartition(".")[2] for each in known))
            raise OptionError(f"option {name}: {quoted(found)} is not one of {listed}. {instead}")
        return known[found]

    return parse


def _fraction(low: float, high: float) -> Kind[float]:
    def parse(name: str, given: str) -> float:
        try:
            value = float(given.strip(BLANKS)) if given.isascii() and "_" not in given else -1.0
        except ValueError:
            value = -1.0
        if not low <= value <= high:
            raise bad_value(name, given, f"a number from {low} to {high}")
        return value

    return parse


def _algorithm(name: str, given: str) -> str:
    return mapped({"rs256": "RS256", "es256": "ES256"})(name, given)


HANDLER: Final = option(
    f"{_LOGIN}.callback.handler.class",
    _java_class(_HANDLERS, _INSTEAD),
    generation=MODERN,
    meaning="Java's class that gets tokens: those of Kafka, Amazon and Google choose the same login here, "
    "others are an error",
)
CLIENT_HANDLER: Final = option(
    "kafka.sasl.client.callback.handler.class",
    _java_class(_HANDLERS, _INSTEAD),
    generation=MODERN,
    meaning="the same for the exchange with the broker",
)
LOGIN_CLASS: Final = option(
    f"{_LOGIN}.class",
    _java_class(_LOGINS, "Java classes are not run here; leave the option out"),
    generation=MODERN,
    meaning="Kafka's own classes have no effect, others are an error",
)
RETRIEVER: Final = option(
    f"{_OAUTH}.jwt.retriever.class",
    _java_class(_RETRIEVERS, _INSTEAD),
    generation=MODERN,
    meaning="Kafka's class that gets tokens; others are an error",
)
VALIDATOR: Final = option(
    f"{_OAUTH}.jwt.validator.class",
    _java_class(_VALIDATORS, "Java classes are not run here, and brokers check tokens; leave the option out"),
    generation=MODERN,
    meaning="Kafka's classes for clients have no effect, others are an error",
)
CLIENT_ID: Final = option(
    f"{_OAUTH}.client.credentials.client.id",
    string,
    generation=MODERN,
    meaning="the name of this client at the token endpoint, instead of `clientId` of the login module",
)
CLIENT_SECRET: Final = option(
    f"{_OAUTH}.client.credentials.client.secret",
    string,
    generation=MODERN,
    meaning="its secret, instead of `clientSecret` of the login module",
    secrets=whole,
)
SCOPE: Final = option(
    f"{_OAUTH}.scope",
    string,
    generation=MODERN,
    meaning="the scope of tokens, instead of `scope` of the login module",
)
ENCODES_HEADER: Final = option(
    f"{_OAUTH}.header.urlencode",
    flag,
    default="false",
    generation=MODERN,
    meaning="`true`: name and secret are encoded as in a URL before they go into the header",
)
ALGORITHM: Final = option(
    f"{_ASSERTION}.algorithm",
    _algorithm,
    default="RS256",
    generation=MODERN,
    meaning="the signature of assertions: `RS256` or `ES256`",
)
KEY_FILE: Final = option(
    f"{_ASSERTION}.private.key.file",
    string,
    generation=MODERN,
    meaning="a PEM file of the key that signs assertions, on the driver; needs `pip install cryptography`",
)
KEY_PASSPHRASE: Final = option(
    f"{_ASSERTION}.private.key.passphrase",
    string,
    generation=MODERN,
    meaning="the password of that key",
    secrets=whole,
)
ASSERTION_FILE: Final = option(
    f"{_ASSERTION}.file",
    string,
    generation=MODERN,
    meaning="a file with a signed assertion, on each machine that connects; it is read for each token",
)
TEMPLATE_FILE: Final = option(
    f"{_ASSERTION}.template.file",
    string,
    generation=MODERN,
    meaning="a JSON file of `header` and `payload` of assertions, on the driver",
)
AUDIENCE: Final = option(
    f"{_ASSERTION}.claim.aud", string, generation=MODERN, meaning="the claim `aud` of assertions"
)
ISSUER: Final = option(
    f"{_ASSERTION}.claim.iss", string, generation=MODERN, meaning="the claim `iss` of assertions"
)
SUBJECT: Final = option(
    f"{_ASSERTION}.claim.sub", string, generation=MODERN, meaning="the claim `sub` of assertions"
)
EXPIRES: Final = option(
    f"{_ASSERTION}.claim.exp.seconds",
    count(1, 86_400),
    default="300",
    generation=MODERN,
    meaning="the lifetime of assertions, in seconds",
)
NOT_BEFORE: Final = option(
    f"{_ASSERTION}.claim.nbf.seconds",
    count(0, 3600),
    default="60",
    generation=MODERN,
    meaning="the seconds before now from which on assertions are valid",
)
HAS_ID: Final = option(
    f"{_ASSERTION}.claim.jti.include",
    flag,
    default="false",
    generation=MODERN,
    meaning="`true`: assertions have a claim `jti`, which is different in each",
)
CONNECT_TIMEOUT: Final = option(
    f"{_LOGIN}.connect.timeout.ms",
    seconds(),
    generation=MODERN,
    meaning="the time to connect to the token endpoint; by default `requestTimeout` bounds the whole login",
)
READ_TIMEOUT: Final = option(
    f"{_LOGIN}.read.timeout.ms",
    seconds(),
    generation=MODERN,
    meaning="the time of one request to the token endpoint; by default `requestTimeout` bounds it",
)
BACKOFF: Final = option(
    f"{_LOGIN}.retry.backoff.ms",
    seconds(),
    default="100",
    generation=MODERN,
    meaning="the wait before a failed request to the token endpoint is tried again; it doubles; only has an "
    "effect if it or the next option is set: by default the connection to the broker is tried again",
)
BACKOFF_MAX: Final = option(
    f"{_LOGIN}.retry.backoff.max.ms",
    seconds(),
    default="10000",
    generation=MODERN,
    meaning="the time for all these attempts, within `requestTimeout`",
)
REFRESH_FACTOR: Final = option(
    f"{_LOGIN}.refresh.window.factor",
    _fraction(0.5, 1.0),
    default="0.8",
    generation=MODERN,
    meaning="the part of a token's lifetime after which a new one is requested, for the next connection",
)
REFRESH_JITTER: Final = option(
    f"{_LOGIN}.refresh.window.jitter",
    _fraction(0.0, 0.25),
    default="0",
    generation=MODERN,
    meaning="the largest random part of the lifetime that is added",
)
REFRESH_PERIOD_MIN: Final = option(
    f"{_LOGIN}.refresh.min.period.seconds",
    count(0, 900),
    default="0",
    generation=MODERN,
    meaning="the least time between two requests for a token, in seconds",
)
REFRESH_BUFFER: Final = option(
    f"{_LOGIN}.refresh.buffer.seconds",
    count(0, 3600),
    default="0",
    generation=MODERN,
    meaning="the least time between the request for a new token and the end of the last one, in seconds",
)
PROVIDER: Final = option(
    PROVIDER_NAME,
    string,
    generation=MODERN,
    meaning="`package.module:function`: a function that returns `(token, expires_at_seconds[, principal, "
    "extensions])` for `OAUTHBEARER`; or `aws`, `google` or `azure`; see "
    "[Bearer tokens](security.md#bearer-tokens)",
)

#: Options of assertions, beside the file of a signed one.
SIGNING_OPTIONS: Final[tuple[Option[Any], ...]] = (
    ALGORITHM, KEY_FILE, KEY_PASSPHRASE, TEMPLATE_FILE, AUDIENCE, ISSUER, SUBJECT, EXPIRES, NOT_BEFORE,
    HAS_ID,
)  # fmt: skip
#: Options of requests to a token endpoint.
ENDPOINT_OPTIONS: Final[tuple[Option[Any], ...]] = (
    SCOPE, CONNECT_TIMEOUT, READ_TIMEOUT, BACKOFF, BACKOFF_MAX,
)  # fmt: skip
CLIENT_OPTIONS: Final[tuple[Option[Any], ...]] = (CLIENT_ID, CLIENT_SECRET, ENCODES_HEADER)
RENEWAL_OPTIONS: Final[tuple[Option[Any], ...]] = (
    REFRESH_FACTOR, REFRESH_JITTER, REFRESH_PERIOD_MIN, REFRESH_BUFFER,
)  # fmt: skip
#: Options that say who has the credentials.
CHOOSING_OPTIONS: Final[tuple[Option[Any], ...]] = (PROVIDER, HANDLER, CLIENT_HANDLER)
#: All that choose or change how a client gets tokens.
TOKEN_OPTIONS: Final[tuple[Option[Any], ...]] = (
    *CHOOSING_OPTIONS,
    *(LOGIN_CLASS, RETRIEVER, VALIDATOR, ASSERTION_FILE),
    *(*SIGNING_OPTIONS, *ENDPOINT_OPTIONS, *CLIENT_OPTIONS, *RENEWAL_OPTIONS),
)


class TlsOptions(NamedTuple):
    """Options of TLS to one kind of peer, as ``tls_options`` declares them."""

    trust_type: Option[str | None]
    trust_location: Option[str | None]
    trust_password: Option[str | None]
    trust_certificates: Option[str | None]
    key_type: Option[str | None]
    key_location: Option[str | None]
    key_store_password: Option[str | None]
    key_text: Option[str | None]
    key_certificates: Option[str | None]
    key_password: Option[str | None]
    checks_host_name: Option[bool]
    protocol: Option[str | None]
    enabled_protocols: Option[str | None]
    cipher_suites: Option[str | None]

    @property
    def trusts(self) -> tuple[Option[str | None], ...]:
        """The options that say whom to trust."""
        return self[:4]


_STORE_TYPE: Final = "`JKS`, `PKCS12` or `PEM`; by default the content of the store decides"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def in_capitals(_: str, given: str) -> str:
    """A word in capitals."""
    return capitals(given)


def _protocol(name: str, given: str) -> str:
    protocol = capitals(given)
    if protocol not in _PROTOCOLS:
        raise bad_value(name, protocol, " or ".join(_PROTOCOLS))
    return protocol


def host_name_check(name: str, given: str) -> bool:
    """True if host names are checked: `https`; an empty value turns that off."""
    algorithm = word(given)
    if algorithm not in ("https", ""):
        raise bad_value(name, algorithm, "https, or an empty value to give up the check of host names")
    return bool(algorithm)


def tls_options(prefix: str, generation: Generation | None) -> TlsOptions:
    """Declare the options of TLS to one kind of peer; ``prefix`` comes before Java's names of them."""

    def text(
        name: str, meaning: str, kind: Kind[str] = string, secrets: Secrets | None = None
    ) -> Option[str | None]:
        return option(f"{prefix}.{name}", kind, generation=generation, meaning=meaning, secrets=secrets)

    return TlsOptions(
        trust_type=text("truststore.type", _STORE_TYPE, in_capitals),
        trust_location=text(
            "truststore.location",
            "a store of trusted authorities, on the driver; by default those of the system",
        ),
        trust_password=text("truststore.password", "the password of that store", secrets=whole),
        trust_certificates=text("truststore.certificates", "trusted authorities as PEM text"),
        key_type=text("keystore.type", _STORE_TYPE, in_capitals),
        key_location=text("keystore.location", "a store of the client's key and certificates, on the driver"),
        key_store_password=text("keystore.password", "the password of that store", secrets=whole),
        key_text=text("keystore.key", "the client's key as PEM text", secrets=whole),
        key_certificates=text("keystore.certificate.chain", "the client's certificates as PEM text"),
        key_password=text(
            "key.password",
            "the password of the client's key, where it is not that of the store",
            secrets=whole,
        ),
        checks_host_name=option(
            f"{prefix}.endpoint.identification.algorithm",
            host_name_check,
            default="https",
            generation=generation,
            meaning="an empty value turns off the check of host names",
        ),
        protocol=text("protocol", "`TLSv1.2` leaves TLS 1.3 out; `TLSv1.3` and `TLS` do not"),
        enabled_protocols=text(
            "enabled.protocols", "`TLSv1.2`, `TLSv1.3` or, by default, both: `TLSv1.2,TLSv1.3`"
        ),
        cipher_suites=text("cipher.suites", "cipher suites of TLS 1.2 by Java's names, as `a,b`"),
    )


def _secrets_of_jaas(text: str) -> Iterable[str]:
    from .jaas import secrets_of

    return secrets_of(text)


PROTOCOL: Final = option(
    "kafka.security.protocol",
    _protocol,
    default="PLAINTEXT",
    generation=MODERN,
    meaning="`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
)
#: The options of TLS to brokers. Those of trust are for the server of tokens, too, with TLS or without.
TLS_OPTIONS: Final = tls_options("kafka.ssl", MODERN)
MECHANISM: Final = option(
    "kafka.sasl.mechanism",
    in_capitals,
    generation=MODERN,
    meaning="`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`",
)
JAAS: Final = option(
    "kafka.sasl.jaas.config",
    string,
    generation=MODERN,
    meaning="the login module with its secrets, in the syntax of Java",
    secrets=_secrets_of_jaas,
)
TOKEN_URL: Final = option(
    "kafka.sasl.oauthbearer.token.endpoint.url",
    string,
    generation=MODERN,
    meaning="the https URL of an authorization server that gives tokens; or `file:///path` of a token on "
    "each machine that connects, which each connection reads",
)
SERVICE_NAME: Final = option(
    "kafka.sasl.kerberos.service.name",
    string,
    generation=MODERN,
    meaning="the first part of the brokers' Kerberos principals, `kafka` of `kafka/host@REALM`; it may be "
    "`serviceName` of the login module instead",
)
DELEGATES: Final = option(
    "delegationTokens",
    flag,
    default="false",
    generation=MODERN,
    meaning="`true`: the driver alone uses the login, and gets delegation tokens with which executors log "
    "in; see [Delegation tokens](security.md#delegation-tokens)",
)
_SASL_OPTIONS: Final = (MECHANISM, JAAS, TOKEN_URL, SERVICE_NAME, *TOKEN_OPTIONS)


def delegates(options: RawOptions) -> bool:
    """Read if tasks log in with delegation tokens, and not as the driver does."""
    return options[DELEGATES]


def used_layers(options: RawOptions) -> tuple[bool, bool]:
    """Read if connections are encrypted, and if they log in. Raises ``OptionError`` (fatal), which
    shows no secret."""
    protocol = options[PROTOCOL]
    with_tls, with_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    if options[DELEGATES] and not with_sasl:
        raise OptionError(
            f"option {DELEGATES.name}: delegation tokens are logins by SASL, and kafka.security.protocol="
            f"{protocol} does not log in; set kafka.security.protocol=SASL_SSL, or leave the option out"
        )
    if not with_sasl and (login := options.given(*_SASL_OPTIONS)):
        # Java's clients connect without a login then, which ends in errors that do not mention it.
        raise OptionError(
            f"option {login[0]}: kafka.security.protocol={protocol} does not log in; set "
            "kafka.security.protocol=SASL_SSL, or SASL_PLAINTEXT where brokers take logins without TLS, or "
            "leave the options of the login out"
        )
    asking = options.given(TOKEN_URL, *CHOOSING_OPTIONS)
    asks_for_tokens = with_sasl and (
        options[MECHANISM] == "AWS_MSK_IAM" or (options[MECHANISM] == "OAUTHBEARER" and asking != [])
    )
    trusts = TLS_OPTIONS.trusts if asks_for_tokens else ()
    used = TLS_OPTIONS if with_tls else trusts
    if unused := options.given(*(option for option in TLS_OPTIONS if option not in used)):
        LOG.warning("kafka.security.protocol=%s does not use %s", protocol, ", ".join(unused))
    return with_tls, with_sasl
