"""Options of TLS and login to modern brokers, and of a schema registry, under the names of Java's clients.

The modules ``tls``, ``credentials`` and ``registry_settings`` read their values. Only connections that are
encrypted, log in or go to a registry import them. Java's classes are not run: those that are known choose a
source of tokens here, and all others are errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..errors import LOG, OptionError, quote
from .option import (
    BLANKS,
    MODERN,
    Group,
    Kind,
    Option,
    RawOptions,
    after_colons,
    bad_value,
    capitals,
    choice,
    count,
    flag,
    map_words,
    option,
    parse_string,
    seconds,
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
    def parse(name: str, given: str) -> str:
        result = given.strip(BLANKS)
        if result not in known:
            listed = ", ".join(dict.fromkeys(item.rpartition(".")[2] for item in known))
            raise OptionError(f"option {name}: {quote(result)} is not one of {listed}. {instead}")
        return known[result]

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


class Tokens(Group, generation=MODERN):
    """All options that choose or change how a client gets bearer tokens."""

    handler = option(f"{_LOGIN}.callback.handler.class", _java_class(_HANDLERS, _INSTEAD)).means(
        "Java's class that gets tokens: those of Kafka, Amazon and Google choose the same login here, "
        "others are an error"
    )
    client_handler = option(
        "kafka.sasl.client.callback.handler.class", _java_class(_HANDLERS, _INSTEAD)
    ).means("the same for the exchange with the broker")
    login_class = option(
        f"{_LOGIN}.class", _java_class(_LOGINS, "Java classes are not run here; leave the option out")
    ).means("Kafka's own classes have no effect, others are an error")
    retriever = option(f"{_OAUTH}.jwt.retriever.class", _java_class(_RETRIEVERS, _INSTEAD)).means(
        "Kafka's class that gets tokens; others are an error"
    )
    validator = option(
        f"{_OAUTH}.jwt.validator.class",
        _java_class(
            _VALIDATORS, "Java classes are not run here, and brokers check tokens; leave the option out"
        ),
    ).means("Kafka's classes for clients have no effect, others are an error")
    client_id = option(f"{_OAUTH}.client.credentials.client.id", parse_string).means(
        "the name of this client at the token endpoint, instead of `clientId` of the login module"
    )
    client_secret = option(f"{_OAUTH}.client.credentials.client.secret", parse_string, secrets=whole).means(
        "its secret, instead of `clientSecret` of the login module"
    )
    scope = option(f"{_OAUTH}.scope", parse_string).means(
        "the scope of tokens, instead of `scope` of the login module"
    )
    encodes_header = option(f"{_OAUTH}.header.urlencode", flag, "false").means(
        "`true`: name and secret are encoded as in a URL before they go into the header"
    )
    algorithm = option(
        f"{_ASSERTION}.algorithm", map_words({"rs256": "RS256", "es256": "ES256"}), "RS256"
    ).means("the signature of assertions: `RS256` or `ES256`")
    key_file = option(f"{_ASSERTION}.private.key.file", parse_string).means(
        "a PEM file of the key that signs assertions, on the driver; needs `pip install cryptography`"
    )
    key_passphrase = option(f"{_ASSERTION}.private.key.passphrase", parse_string, secrets=whole).means(
        "the password of that key"
    )
    assertion_file = option(f"{_ASSERTION}.file", parse_string).means(
        "a file with a signed assertion, on each machine that connects; it is read for each token"
    )
    template_file = option(f"{_ASSERTION}.template.file", parse_string).means(
        "a JSON file of `header` and `payload` of assertions, on the driver"
    )
    audience = option(f"{_ASSERTION}.claim.aud", parse_string).means("the claim `aud` of assertions")
    issuer = option(f"{_ASSERTION}.claim.iss", parse_string).means("the claim `iss` of assertions")
    subject = option(f"{_ASSERTION}.claim.sub", parse_string).means("the claim `sub` of assertions")
    expires = option(f"{_ASSERTION}.claim.exp.seconds", count(1, 86_400), "300").means(
        "the lifetime of assertions, in seconds"
    )
    not_before = option(f"{_ASSERTION}.claim.nbf.seconds", count(0, 3600), "60").means(
        "the seconds before now from which on assertions are valid"
    )
    has_id = option(f"{_ASSERTION}.claim.jti.include", flag, "false").means(
        "`true`: assertions have a claim `jti`, which is different in each"
    )
    connect_timeout = option(f"{_LOGIN}.connect.timeout.ms", seconds()).means(
        "the time to connect to the token endpoint; by default `requestTimeout` bounds the whole login"
    )
    read_timeout = option(f"{_LOGIN}.read.timeout.ms", seconds()).means(
        "the time of one request to the token endpoint; by default `requestTimeout` bounds it"
    )
    backoff = option(f"{_LOGIN}.retry.backoff.ms", seconds(), "100").means(
        "the wait before a failed request to the token endpoint is tried again; it doubles; only has an "
        "effect if it or the next option is set: by default the connection to the broker is tried again"
    )
    backoff_max = option(f"{_LOGIN}.retry.backoff.max.ms", seconds(), "10000").means(
        "the time for all these attempts, within `requestTimeout`"
    )
    refresh_factor = option(f"{_LOGIN}.refresh.window.factor", _fraction(0.5, 1.0), "0.8").means(
        "the part of a token's lifetime after which a new one is requested, for the next connection"
    )
    refresh_jitter = option(f"{_LOGIN}.refresh.window.jitter", _fraction(0.0, 0.25), "0").means(
        "the largest random part of the lifetime that is added"
    )
    refresh_period_min = option(f"{_LOGIN}.refresh.min.period.seconds", count(0, 900), "0").means(
        "the least time between two requests for a token, in seconds"
    )
    refresh_buffer = option(f"{_LOGIN}.refresh.buffer.seconds", count(0, 3600), "0").means(
        "the least time between the request for a new token and the end of the last one, in seconds"
    )
    provider = option(PROVIDER_NAME, parse_string).means(
        "`package.module:function`: a function that returns `(token, expires_at_seconds[, principal, "
        "extensions])` for `OAUTHBEARER`; or `aws`, `google` or `azure`; see "
        "[Bearer tokens](security.md#bearer-tokens)"
    )


#: Options that say who has the credentials.
CHOOSING_OPTIONS: Final[tuple[Option[Any], ...]] = (Tokens.provider, Tokens.handler, Tokens.client_handler)


_STORE_TYPE: Final = "`JKS`, `PKCS12` or `PEM`; by default the content of the store decides"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def parse_capitals(_: str, given: str) -> str:
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


class TlsOptions(Group):
    """Options of TLS to one kind of peer, by Java's names without the prefix that says which."""

    trust_type = option("truststore.type", parse_capitals).means(_STORE_TYPE)
    trust_location = option("truststore.location", parse_string).means(
        "a store of trusted authorities, on the driver; by default those of the system"
    )
    trust_password = option("truststore.password", parse_string, secrets=whole).means(
        "the password of that store"
    )
    trust_certificates = option("truststore.certificates", parse_string).means(
        "trusted authorities as PEM text"
    )
    key_type = option("keystore.type", parse_capitals).means(_STORE_TYPE)
    key_location = option("keystore.location", parse_string).means(
        "a store of the client's key and certificates, on the driver"
    )
    key_store_password = option("keystore.password", parse_string, secrets=whole).means(
        "the password of that store"
    )
    key_text = option("keystore.key", parse_string, secrets=whole).means("the client's key as PEM text")
    key_certificates = option("keystore.certificate.chain", parse_string).means(
        "the client's certificates as PEM text"
    )
    key_password = option("key.password", parse_string, secrets=whole).means(
        "the password of the client's key, where it is not that of the store"
    )
    checks_host_name = option("endpoint.identification.algorithm", host_name_check, "https").means(
        "an empty value turns off the check of host names"
    )
    protocol = option("protocol", parse_string).means(
        "`TLSv1.2` leaves TLS 1.3 out; `TLSv1.3` and `TLS` do not"
    )
    enabled_protocols = option("enabled.protocols", parse_string).means(
        "`TLSv1.2`, `TLSv1.3` or, by default, both: `TLSv1.2,TLSv1.3`"
    )
    cipher_suites = option("cipher.suites", parse_string).means(
        "cipher suites of TLS 1.2 by Java's names, as `a,b`"
    )

    @classmethod
    def trusts(cls) -> tuple[Option[Any], ...]:
        """The options that say whom to trust. They are for the server of tokens, too."""
        return cls.trust_type, cls.trust_location, cls.trust_password, cls.trust_certificates


class BrokerTls(TlsOptions, prefix="kafka.ssl.", generation=MODERN):
    """Options of TLS to brokers."""


class RegistryTls(TlsOptions, prefix="schema.registry.ssl."):
    """Options of TLS to registries."""


class Registry(Group):
    """The servers, the login and the certificates of a schema registry."""

    url = option("schema.registry.url", parse_string).means(
        "`http://h:p` or `https://h:p`: the schema registry; several servers of one registry as `a,b`"
    )
    basic_source = option("basic.auth.credentials.source", choice("user_info")).means(
        "`USER_INFO`, the only supported source of a user and a password"
    )
    basic = option("basic.auth.user.info", parse_string, secrets=after_colons(1)).means(
        "`user:password`: the login to the schema registry"
    )
    bearer_source = option("bearer.auth.credentials.source", choice("static_token", "oauthbearer")).means(
        "`STATIC_TOKEN` or `OAUTHBEARER`; by default as the other options of the login say"
    )
    token = option("bearer.auth.token", parse_string, secrets=whole).means(
        "a token, instead of a user and a password"
    )
    token_url = option("bearer.auth.issuer.endpoint.url", parse_string).means(
        "the https URL that gives tokens for the client below"
    )
    client_id = option("bearer.auth.client.id", parse_string).means("the client that gets tokens")
    client_secret = option("bearer.auth.client.secret", parse_string, secrets=whole).means(
        "the secret of that client"
    )
    scope = option("bearer.auth.scope", parse_string).means("the scope of its tokens")
    logical_cluster = option("bearer.auth.logical.cluster", parse_string).means(
        "the logical cluster of a registry in Confluent Cloud, for logins with a token"
    )
    identity_pool = option("bearer.auth.identity.pool.id", parse_string).means(
        "the identity pool there, for logins with a token"
    )
    tls = RegistryTls


def _secrets_of_jaas(text: str) -> Iterable[str]:
    from .jaas import secrets_of

    return secrets_of(text)


class Layers(Group, generation=MODERN):
    """Encryption and login of connections to brokers."""

    protocol = option("kafka.security.protocol", _protocol, "PLAINTEXT").means(
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"
    )
    tls = BrokerTls
    mechanism = option("kafka.sasl.mechanism", parse_capitals).means(
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`"
    )
    jaas = option("kafka.sasl.jaas.config", parse_string, secrets=_secrets_of_jaas).means(
        "the login module with its secrets, in the syntax of Java"
    )
    token_url = option("kafka.sasl.oauthbearer.token.endpoint.url", parse_string).means(
        "the https URL of an authorization server that gives tokens; or `file:///path` of a token on "
        "each machine that connects, which each connection reads"
    )
    service_name = option("kafka.sasl.kerberos.service.name", parse_string).means(
        "the first part of the brokers' Kerberos principals, `kafka` of `kafka/host@REALM`; it may be "
        "`serviceName` of the login module instead"
    )
    delegates = option("delegationTokens", flag, "false").means(
        "`true`: the driver alone uses the login, and gets delegation tokens with which executors log "
        "in; see [Delegation tokens](security.md#delegation-tokens)"
    )


_SASL_OPTIONS: Final = (
    *(Layers.mechanism, Layers.jaas, Layers.token_url, Layers.service_name),
    *(*CHOOSING_OPTIONS, *Tokens.options()),
)


def parse_layers(options: RawOptions) -> tuple[bool, bool]:
    """Read if connections are encrypted, and if they log in. Raises ``OptionError`` (fatal), which
    shows no secret."""
    protocol = options[Layers.protocol]
    with_tls, with_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    if options[Layers.delegates] and not with_sasl:
        raise OptionError(
            f"option {Layers.delegates}: delegation tokens are logins by SASL, and kafka.security.protocol="
            f"{protocol} does not log in; set kafka.security.protocol=SASL_SSL, or leave the option out"
        )
    if not with_sasl and (login := options.given(*_SASL_OPTIONS)):
        # Java's clients connect without a login then, which ends in errors that do not mention it.
        raise OptionError(
            f"option {login[0]}: kafka.security.protocol={protocol} does not log in; set "
            "kafka.security.protocol=SASL_SSL, or SASL_PLAINTEXT where brokers take logins without TLS, or "
            "leave the options of the login out"
        )
    asking = options.given(Layers.token_url, *CHOOSING_OPTIONS)
    asks_for_tokens = with_sasl and (
        options[Layers.mechanism] == "AWS_MSK_IAM"
        or (options[Layers.mechanism] == "OAUTHBEARER" and asking != [])
    )
    trusts = BrokerTls.trusts() if asks_for_tokens else ()
    used = BrokerTls.options() if with_tls else trusts
    if unused := options.given(*(option for option in BrokerTls.options() if option not in used)):
        LOG.warning("kafka.security.protocol=%s does not use %s", protocol, ", ".join(unused))
    return with_tls, with_sasl
