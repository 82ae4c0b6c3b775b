"""Options of logins to modern brokers besides mechanism and login module: where bearer tokens come from.

The names are those of Kafka's Java clients. The module ``tokens`` reads their values. Java's classes are not
run: those that are known choose a source of tokens here, and all others are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import OptionError, quoted
from .option import (
    BLANKS,
    MODERN,
    Kind,
    Option,
    bad_value,
    count,
    flag,
    mapped,
    option,
    seconds,
    string,
    whole,
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
