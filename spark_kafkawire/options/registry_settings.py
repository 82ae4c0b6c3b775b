"""Settings of a schema registry, from its options: servers, login and certificates.

Files are read here, once, so that they need to be on the driver only. Secrets travel to the executors with
the settings, and are in no error, repr or log.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from ..errors import LOG, OptionError, quote
from ..net.http import Url
from ..registry import BasicLogin, BearerToken, Login, RegistrySettings
from .connection import NetOptions
from .option import BLANKS, Option, RawOptions
from .security import Registry, RegistryTls

_HTTPS: Final = "https"
#: A token in the header of a request.
_TOKEN: Final = re.compile("[!-~]+")
#: A value that a header may have.
_HEADER: Final = re.compile("[!-~]{1,200}")
_OF_BASIC: Final = (Registry.basic, Registry.basic_source)
_OF_CLIENT: Final = (Registry.token_url, Registry.client_id, Registry.client_secret, Registry.scope)
_OF_TOKENS: Final = (
    *(Registry.token, Registry.bearer_source, Registry.logical_cluster, Registry.identity_pool),
    *_OF_CLIENT,
)
#: Headers of Confluent Cloud, beside a token.
_HEADERS: Final = (
    ("target-sr-cluster", Registry.logical_cluster),
    ("Confluent-Identity-Pool-Id", Registry.identity_pool),
)


def registry_settings(options: RawOptions, net: NetOptions) -> RegistrySettings | None:
    """The settings of the registry; None without its URL. Raises ``OptionError`` (fatal), which shows no
    secret."""
    text = options[Registry.url]
    if text is None:
        if given := options.given(*_OF_BASIC, *_OF_TOKENS, *RegistryTls.options()):
            raise OptionError(
                f"option {given[0]} is for a schema registry, and {Registry.url} is not set; set it"
            )
        return None
    urls = _urls(text)
    is_encrypted = any(url.scheme == _HTTPS for url in urls)
    asks_for_tokens = bool(options.given(Registry.token_url))
    used = RegistryTls.options() if is_encrypted else RegistryTls.trusts() if asks_for_tokens else ()
    if unused := options.given(*(item for item in RegistryTls.options() if item not in used)):
        LOG.warning("%s with http:// does not use %s", Registry.url.name, ", ".join(unused))
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
                f"option {Registry.url}: a URL with a login is not supported, because URLs are shown (its "
                f"value is not shown here); set {Registry.basic}"
            )
        url = Url.parse(part)
        if url is None or "?" in part:
            raise OptionError(f"option {Registry.url}: {quote(part)} is not {form}")
        urls.append(url)
    return tuple(urls)


def _login(options: RawOptions) -> Login | None:
    basic, tokens = options.given(*_OF_BASIC), options.given(*_OF_TOKENS)
    if basic and tokens:
        raise OptionError(f"options {basic[0]} and {tokens[0]} are two logins; set one of them")
    _ = options[Registry.basic_source]
    if basic:
        return _basic(options)
    return _bearer(options) if tokens else None


def _basic(options: RawOptions) -> BasicLogin:
    user, colon, password = _require_option(options, Registry.basic).partition(":")
    if not user or not colon or not re.fullmatch(r"[^\x00-\x1f\x7f]*", user + password):
        raise OptionError(
            f"option {Registry.basic} is not of the form user:password (its value is not shown)"
        )
    return BasicLogin(user, password)


def _bearer(options: RawOptions) -> Login:
    source, client = options[Registry.bearer_source], options.given(*_OF_CLIENT)
    if client and (options.given(Registry.token) or source == "static_token"):
        raise OptionError(
            f"option {client[0]} is for a client that gets tokens; leave it out, or leave {Registry.token} "
            f"and {Registry.bearer_source}=STATIC_TOKEN out"
        )
    if not client and source != "oauthbearer":
        token = _require_option(options, Registry.token).strip(BLANKS)
        if not _TOKEN.fullmatch(token):
            raise OptionError(
                f"option {Registry.token} is not one word of ASCII (its value is not shown); set the "
                "token alone"
            )
        return BearerToken(token)
    from ..net.logins.tokens.oauth import ClientCredentials, OptionNames

    return ClientCredentials(
        endpoint_url=_require_option(options, Registry.token_url).strip(BLANKS),
        client_id=_require_option(options, Registry.client_id),
        client_secret=_require_option(options, Registry.client_secret),
        scope=options[Registry.scope],
        tls=replace(_tls(options), identity=None, key_password=None, checks_host_name=True),
        names=OptionNames(Registry.token_url.name, f"{Registry.client_id} and {Registry.client_secret}"),
    )


def _headers(options: RawOptions) -> tuple[tuple[str, str], ...]:
    result = [(header, item.name, options[item]) for header, item in _HEADERS]
    for _, name, value in result:
        if value is not None and not _HEADER.fullmatch(value):
            raise OptionError(f"option {name}: {quote(value)} is not one word of ASCII; correct it")
    return tuple((header, value) for header, _, value in result if value is not None)


def _tls(options: RawOptions) -> Any:
    from ..net.tls import OF_REGISTRY
    from .tls import tls_of

    return tls_of(options, RegistryTls, OF_REGISTRY)


def _require_option(options: RawOptions, of: Option[str | None]) -> str:
    value = options[of]
    if not value:
        raise OptionError(f"option {of} is not set: set it, for the login to the schema registry")
    return value
