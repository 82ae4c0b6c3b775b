"""Logins of connections to modern Kafka, from options of SASL.

Secrets travel to the executors with the settings, and are in no error, repr or log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..errors import OptionError
from ..net.oauth import ClientCredentials
from ..net.sasl import MECHANISMS, Password, Sasl, Token
from ..net.tls import Tls
from .jaas import JaasLogin, parse_jaas
from .option import bad_value
from .raw import RawOptions
from .security import JAAS, MECHANISM, TOKEN_URL
from .tls import check, trusted

#: The login module of each mechanism.
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}


def sasl_of(options: RawOptions) -> Sasl:
    """Login of the client. Raises ``OptionError`` (fatal), which shows no secret."""
    mechanism = options[MECHANISM] or ""
    if mechanism not in MECHANISMS:
        known = " or ".join(MECHANISMS)
        if mechanism in ("", "GSSAPI"):
            raise OptionError(f"option kafka.sasl.mechanism: set {known}; Kerberos (GSSAPI) is not supported")
        raise bad_value("kafka.sasl.mechanism", mechanism, known)
    text = options[JAAS]
    if text is None:
        raise OptionError(f"option {JAAS.name}: set it, for kafka.sasl.mechanism={mechanism}")
    login = parse_jaas(text)
    if login.module != _MODULES[mechanism]:
        raise OptionError(
            f"option {JAAS.name}: its login module is not {_MODULES[mechanism]}, which belongs to "
            f"kafka.sasl.mechanism={mechanism} (its value is not shown)"
        )
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, _oauth(options, login))
    return Sasl(mechanism, _password(login))


def _password(login: JaasLogin) -> Password:
    if login.options.get("tokenauth", "").lower() == "true":
        raise OptionError(f"option {JAAS.name}: delegation tokens (tokenauth) are not supported")
    username, password = (_needed(login.options, name) for name in ("username", "password"))
    return Password(username, password)


def _oauth(options: RawOptions, login: JaasLogin) -> Token | ClientCredentials:
    extensions = _extensions(login)
    url = options[TOKEN_URL]
    if url is None:
        return Token(_token(login), extensions)
    # Connections without TLS get their tokens with it, too.
    tls = Tls(trust=trusted(options))
    check(tls, options)
    return ClientCredentials(
        endpoint_url=url.strip(),
        client_id=_needed(login.options, "clientId"),
        client_secret=_needed(login.options, "clientSecret"),
        scope=login.options.get("scope"),
        extensions=extensions,
        tls=tls,
    )


def _extensions(login: JaasLogin) -> tuple[tuple[str, str], ...]:
    """SASL extensions, which go to the broker with the token. Source: KIP-342."""
    extensions = tuple(
        (name.removeprefix("extension_"), value)
        for name, value in sorted(login.options.items())
        if name.startswith("extension_")
    )
    if not all(re.fullmatch(r"[A-Za-z]+", name) and "\x01" not in value for name, value in extensions):
        raise OptionError(
            f"option {JAAS.name}: the name of an extension has letters only (its value is not shown)"
        )
    return extensions


def _token(login: JaasLogin) -> str:
    token = _needed(login.options, "token", f", or set {TOKEN_URL.name} with clientId and clientSecret")
    if not re.fullmatch(r"[!-~]+", token):
        raise OptionError(f"option {JAAS.name}: token is not one word of ASCII (its value is not shown)")
    return token


def _needed(options: Mapping[str, str], name: str, instead: str = "") -> str:
    value = options.get(name)
    if not value or "\0" in value:
        raise OptionError(f'option {JAAS.name}: give it {name}="…"{instead} (its value is not shown)')
    return value
