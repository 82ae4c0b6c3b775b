"""Settings of a schema registry, from its options: servers, login and certificates.

Files are read here, once, so that they need to be on the driver only. Secrets travel to the executors with
the settings, and are in no error, repr or log.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from ..errors import LOG, OptionError, quoted
from ..net.http import Url
from ..registry import BasicLogin, BearerToken, Login, RegistrySettings
from . import schema_registry as names
from .connection import NetOptions
from .option import BLANKS, Option, RawOptions

_HTTPS: Final = "https"
#: A token in the header of a request.
_TOKEN: Final = re.compile("[!-~]+")
#: A value that a header may have.
_HEADER: Final = re.compile("[!-~]{1,200}")
#: Headers of Confluent Cloud, beside a token.
_HEADERS: Final = (
    ("target-sr-cluster", names.LOGICAL_CLUSTER),
    ("Confluent-Identity-Pool-Id", names.IDENTITY_POOL),
)


def registry_settings(options: RawOptions, net: NetOptions) -> RegistrySettings | None:
    """The settings of the registry; None without its URL. Raises ``OptionError`` (fatal), which shows no
    secret."""
    text = options[names.URL]
    if text is None:
        if given := options.given(*names.OPTIONS):
            raise OptionError(
                f"option {given[0]} is for a schema registry, and {names.URL.name} is not set; set it"
            )
        return None
    urls = _urls(text)
    is_encrypted = any(url.scheme == _HTTPS for url in urls)
    asks_for_tokens = bool(options.given(names.TOKEN_URL))
    used = names.TLS if is_encrypted else names.TLS.trusts if asks_for_tokens else ()
    if unused := options.given(*(each for each in names.TLS if each not in used)):
        LOG.warning("%s with http:// does not use %s", names.URL.name, ", ".join(unused))
    return RegistrySettings(
        urls,
        _login(options),
        _headers(options),
        _tls(options) if is_encrypted else None,
        net.request_timeout_s,
        net.retry.known,
    )


def _urls(text: str) -> tuple[Url, ...]:
    form = "of the form http://host:port or https://host:port, several as a,b"
    urls = []
    for part in (part.strip(BLANKS) for part in text.split(",")):
        if "@" in part:  # a password may be in front of it
            raise OptionError(
                f"option {names.URL.name}: a URL with a login is not supported, because URLs are shown (its "
                f"value is not shown here); set {names.BASIC.name}"
            )
        url = Url.parse(part)
        if url is None or "?" in part:
            raise OptionError(f"option {names.URL.name}: {quoted(part)} is not {form}")
        urls.append(url)
    return tuple(urls)


def _login(options: RawOptions) -> Login | None:
    basic, tokens = options.given(*names.OF_BASIC), options.given(*names.OF_TOKENS)
    if basic and tokens:
        raise OptionError(f"options {basic[0]} and {tokens[0]} are two logins; set one of them")
    _ = options[names.BASIC_SOURCE]
    if basic:
        return _basic(options)
    return _bearer(options) if tokens else None


def _basic(options: RawOptions) -> BasicLogin:
    user, colon, password = _needed(options, names.BASIC).partition(":")
    if not user or not colon or not re.fullmatch(r"[^\x00-\x1f\x7f]*", user + password):
        raise OptionError(
            f"option {names.BASIC.name} is not of the form user:password (its value is not shown)"
        )
    return BasicLogin(user, password)


def _bearer(options: RawOptions) -> Login:
    source, client = options[names.BEARER_SOURCE], options.given(*names.OF_CLIENT)
    if client and (options.given(names.TOKEN) or source == "static_token"):
        raise OptionError(
            f"option {client[0]} is for a client that gets tokens; leave it out, or leave {names.TOKEN.name} "
            f"and {names.BEARER_SOURCE.name}=STATIC_TOKEN out"
        )
    if not client and source != "oauthbearer":
        token = _needed(options, names.TOKEN).strip(BLANKS)
        if not _TOKEN.fullmatch(token):
            raise OptionError(
                f"option {names.TOKEN.name} is not one word of ASCII (its value is not shown); set the "
                "token alone"
            )
        return BearerToken(token)
    from ..net.logins.tokens.oauth import ClientCredentials, OptionNames

    return ClientCredentials(
        endpoint_url=_needed(options, names.TOKEN_URL).strip(BLANKS),
        client_id=_needed(options, names.CLIENT_ID),
        client_secret=_needed(options, names.CLIENT_SECRET),
        scope=options[names.SCOPE],
        tls=replace(_tls(options), identity=None, key_password=None, checks_host_name=True),
        names=OptionNames(names.TOKEN_URL.name, f"{names.CLIENT_ID.name} and {names.CLIENT_SECRET.name}"),
    )


def _headers(options: RawOptions) -> tuple[tuple[str, str], ...]:
    found = [(header, each.name, options[each]) for header, each in _HEADERS]
    for _, name, value in found:
        if value is not None and not _HEADER.fullmatch(value):
            raise OptionError(f"option {name}: {quoted(value)} is not one word of ASCII; correct it")
    return tuple((header, value) for header, _, value in found if value is not None)


def _tls(options: RawOptions) -> Any:
    from ..net.tls import OF_REGISTRY
    from .tls import tls_of

    return tls_of(options, names.TLS, OF_REGISTRY)


def _needed(options: RawOptions, of: Option[str | None]) -> str:
    value = options[of]
    if not value:
        raise OptionError(f"option {of.name} is not set: set it, for the login to the schema registry")
    return value
