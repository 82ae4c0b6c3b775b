"""Options of TLS and login, under the names that Kafka's Java clients have for them.

What they hold is read by ``credentials``, which is imported where there is any.
"""

from __future__ import annotations

import logging
from typing import Final

from ..net.settings import PLAINTEXT, Security
from .raw import RawOptions, bad_value, word

_log = logging.getLogger("spark_kafkawire")

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TRUST: Final = "kafka.ssl.truststore"
KEY: Final = "kafka.ssl.keystore"
HOST_NAME_CHECK: Final = "kafka.ssl.endpoint.identification.algorithm"
JAAS: Final = "kafka.sasl.jaas.config"
TOKEN_URL: Final = "kafka.sasl.oauthbearer.token.endpoint.url"
#: Whom to trust: brokers with TLS, and the server that gives tokens, with or without.
_TRUST_OPTIONS: Final = tuple(f"{TRUST}.{part}" for part in ("type", "location", "certificates"))
_TLS_OPTIONS: Final = (
    *_TRUST_OPTIONS,
    *(f"{KEY}.{part}" for part in ("type", "location", "certificate.chain", "key")),
    "kafka.ssl.key.password",
    HOST_NAME_CHECK,
)
_SASL_OPTIONS: Final = ("kafka.sasl.mechanism", JAAS, TOKEN_URL)


def parse_security(options: RawOptions) -> Security:
    """How connections are protected. Raises ``OptionError`` (fatal), which shows no secret."""
    protocol = capitals(options.get("kafka.security.protocol"))
    if protocol not in _PROTOCOLS:
        raise bad_value("kafka.security.protocol", protocol, " or ".join(_PROTOCOLS))
    with_tls, with_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    asks_for_tokens = with_sasl and mechanism_of(options) == "OAUTHBEARER" and options.given(TOKEN_URL) != []
    trusts = _TRUST_OPTIONS if asks_for_tokens else ()
    used = {*(_TLS_OPTIONS if with_tls else trusts), *(_SASL_OPTIONS if with_sasl else ())}
    if unused := options.given(*(name for name in (*_TLS_OPTIONS, *_SASL_OPTIONS) if name not in used)):
        _log.warning("kafka.security.protocol=%s makes no use of %s", protocol, ", ".join(unused))
    if not with_tls and not with_sasl:
        return PLAINTEXT
    from .credentials import sasl_of, tls_of

    return Security(tls_of(options) if with_tls else None, sasl_of(options) if with_sasl else None)


def capitals(text: str | None) -> str:
    """A word of an option, which is the same in small letters."""
    found = word(text or "")
    return found.upper() if found.isascii() else found


def mechanism_of(options: RawOptions) -> str:
    """The one that ``kafka.sasl.mechanism`` names; empty where it names none."""
    return capitals(options.get("kafka.sasl.mechanism"))
