"""Options of TLS and login to modern brokers, under the names that Kafka's Java clients have for them.

The modules ``tls`` and ``credentials`` read their values. Only connections that are encrypted or log in
import them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ..errors import LOG, OptionError
from ..model import Generation
from . import login_options
from .option import MODERN, Kind, Option, Secrets, bad_value, capitals, flag, option, string, whole, word
from .raw import RawOptions


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
_SASL_OPTIONS: Final = (MECHANISM, JAAS, TOKEN_URL, SERVICE_NAME, *login_options.TOKEN_OPTIONS)


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
    asking = options.given(TOKEN_URL, *login_options.CHOOSING_OPTIONS)
    asks_for_tokens = with_sasl and (
        options[MECHANISM] == "AWS_MSK_IAM" or (options[MECHANISM] == "OAUTHBEARER" and asking != [])
    )
    trusts = TLS_OPTIONS.trusts if asks_for_tokens else ()
    used = TLS_OPTIONS if with_tls else trusts
    if unused := options.given(*(option for option in TLS_OPTIONS if option not in used)):
        LOG.warning("kafka.security.protocol=%s does not use %s", protocol, ", ".join(unused))
    return with_tls, with_sasl
