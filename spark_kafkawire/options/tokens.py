"""Sources of bearer tokens, from the options of OAUTHBEARER and the login module's own.

Files of keys and templates are read here, on the driver. Files of tokens are read where connections are made.
No error shows a secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from spark_kafkawire.regular_files import open_regular

from ..errors import LOG, OptionError, quoted
from ..net.logins.oauthbearer import Bearer
from ..net.logins.tokens.aws.msk import MskToken
from ..net.logins.tokens.azure import AzureToken
from ..net.logins.tokens.client_credentials import IN_OPTIONS, OF_BROKERS, ClientCredentials
from ..net.logins.tokens.endpoint import Patience
from ..net.logins.tokens.google import GoogleToken
from ..net.logins.tokens.jwt_assertion import Claims, JwtAssertion, Signer
from ..net.logins.tokens.provider import TokenProvider, is_extension
from ..net.logins.tokens.token import FixedToken, Renewal, TokenSource, is_token
from ..net.logins.tokens.token_file import TokenFile
from ..net.tls import Tls
from . import login_options as of
from .aws import aws_login_of
from .option import Option
from .raw import RawOptions
from .security import JAAS, TOKEN_URL

#: Longest file of a key or a template, bytes.
FILE_BYTES_MAX: Final = 1 << 20


def bearer_of(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> Bearer:
    """The login with bearer tokens. ``login`` are the options of the login module; ``trust`` reads the
    certificates that token endpoints are checked against. Raises ``OptionError`` (fatal)."""
    for each in (of.LOGIN_CLASS, of.VALIDATOR):
        options[each]  # unknown classes are refused
    chosen = _chosen(options)
    source, used = _SOURCES[chosen](options, login, trust)
    known = (*of.ENDPOINT_OPTIONS, *of.CLIENT_OPTIONS, *of.SIGNING_OPTIONS, of.ASSERTION_FILE, TOKEN_URL)
    if unused := options.given(*(each for each in known if each not in used)):
        LOG.warning("tokens of %s do not use %s", chosen, ", ".join(unused))
    renewal = Renewal(*(options[each] for each in of.RENEWAL_OPTIONS))
    return Bearer(source, _extensions(login), renewal)


def _chosen(options: RawOptions) -> str:
    """The name of the source of tokens. Raises ``OptionError`` (fatal) if two options choose differently."""
    by_class = {each.name: options[each] for each in (of.HANDLER, of.CLIENT_HANDLER, of.RETRIEVER)}
    chosen = {name: source for name, source in by_class.items() if source}
    if options.given(of.PROVIDER):
        given = (options[of.PROVIDER] or "").strip()
        chosen = {of.PROVIDER.name: given if given in _BUILT_IN else _FUNCTION, **chosen}
    if len(set(chosen.values())) > 1:
        raise OptionError(
            f"options {' and '.join(chosen)} choose different sources of tokens; set one of them"
        )
    return next(iter(chosen.values()), _by_options(options))


def _by_options(options: RawOptions) -> str:
    url = options[TOKEN_URL]
    if url is None:
        return _FIXED
    if url.strip().lower().startswith("file:"):
        return of.FILE
    return of.ASSERTION if options.given(of.KEY_FILE, of.ASSERTION_FILE) else of.CLIENT


#: What a source is made from, and the options that it uses.
_Made = tuple[TokenSource, tuple[Option[Any], ...]]


def _fixed(_options: RawOptions, login: Mapping[str, str], _trust: Callable[[], Tls]) -> _Made:
    client = f"{of.CLIENT_ID.name} and {of.CLIENT_SECRET.name}"
    instead = f", or set {TOKEN_URL.name} with {client}, or {of.PROVIDER_NAME}"
    token = needed(login, "token", instead)
    if not is_token(token):
        raise OptionError(
            f"option {JAAS.name}: token is not one word of ASCII (its value is not shown); correct it"
        )
    return FixedToken(token), ()


def _client(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> _Made:
    in_options = bool(options.given(of.CLIENT_ID, of.CLIENT_SECRET))
    pairs = ((of.CLIENT_ID, "clientId"), (of.CLIENT_SECRET, "clientSecret"))
    # Each may be in either place; the options take precedence, as in Java's client.
    name, secret = (_option_or(options, each, login, name, in_options) for each, name in pairs)
    source = ClientCredentials(
        endpoint_url=_url(options),
        client_id=name,
        client_secret=secret,
        scope=_scope(options, login),
        tls=trust(),
        names=IN_OPTIONS if in_options else OF_BROKERS,
        encodes_header=options[of.ENCODES_HEADER],
        patience=_patience(options),
    )
    return source, (*of.CLIENT_OPTIONS, *of.ENDPOINT_OPTIONS, TOKEN_URL)


def _option_or(
    options: RawOptions, given: Option[str | None], login: Mapping[str, str], name: str, in_options: bool
) -> str:
    value = options[given]
    if value is None and in_options and name not in login:
        raise OptionError(f"option {given.name} is not set, and the login needs it: set it, too")
    if value is None:
        return needed(login, name, f", or set {given.name}")
    if not value or "\0" in value:
        raise OptionError(
            f"option {given.name} is empty, or has a character NUL (its value is not shown); correct it"
        )
    return value


def _file(options: RawOptions, _login: Mapping[str, str], _trust: Callable[[], Tls]) -> _Made:
    text = _url(options)
    url = urlsplit(text)
    path = unquote(url.path)
    if (
        url.scheme != "file"
        or url.netloc not in ("", "localhost")
        or not path.startswith("/")
        or "\0" in path
    ):
        raise OptionError(
            f"option {TOKEN_URL.name} is not of the form file:///path/of/a/token (its value is not shown)"
        )
    return TokenFile(path), (TOKEN_URL,)


def _assertion(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> _Made:
    path = options[of.ASSERTION_FILE]
    signer, claims = None, Claims()
    if path is None:
        key = options[of.KEY_FILE]
        if key is None:
            raise OptionError(f"option {of.KEY_FILE.name} is not set: set it, or {of.ASSERTION_FILE.name}")
        signer = Signer(
            options[of.ALGORITHM], _read(of.KEY_FILE.name, key), options[of.KEY_PASSPHRASE] or None
        )
        claims = _claims(options)
    source = JwtAssertion(
        endpoint_url=_url(options),
        signer=signer,
        claims=claims,
        assertion_file=path,
        scope=_scope(options, login),
        tls=trust(),
        patience=_patience(options),
    )
    if signer is not None:
        source.assertion()  # a bad key fails here, not in the tasks
    made_of = (of.ASSERTION_FILE,) if path is not None else of.SIGNING_OPTIONS
    return source, (*made_of, *of.ENDPOINT_OPTIONS, TOKEN_URL)


def _claims(options: RawOptions) -> Claims:
    named = {"aud": of.AUDIENCE, "iss": of.ISSUER, "sub": of.SUBJECT}
    values = ((name, options[each]) for name, each in named.items())
    header, payload = _template(options)
    return Claims(
        tuple((name, value) for name, value in values if value is not None),
        header,
        payload,
        options[of.EXPIRES],
        options[of.NOT_BEFORE],
        options[of.HAS_ID],
    )


def _template(options: RawOptions) -> tuple[str, str]:
    """The header and the payload of a template, JSON objects as text."""
    path = options[of.TEMPLATE_FILE]
    if path is None:
        return "{}", "{}"
    name = of.TEMPLATE_FILE.name
    text = _read(name, path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    parts = [found.get(part, {}) if isinstance(found, dict) else None for part in ("header", "payload")]
    if not all(isinstance(part, dict) for part in parts):
        raise OptionError(
            f"option {name}: {quoted(path)} is not a JSON object of the objects header and payload; correct "
            "it"
        )
    return json.dumps(parts[0]), json.dumps(parts[1])


def _aws(_options: RawOptions, login: Mapping[str, str], _trust: Callable[[], Tls]) -> _Made:
    return MskToken(aws_login_of(login)), ()


def _google(_options: RawOptions, _login: Mapping[str, str], trust: Callable[[], Tls]) -> _Made:
    return GoogleToken(trust()), ()


def _azure(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> _Made:
    scope = (_scope(options, login) or "").strip()
    if not scope.endswith("/.default"):
        raise OptionError(
            f"option {of.SCOPE.name}: {of.PROVIDER_NAME}=azure needs a scope that ends in /.default, such as "
            "https://NAMESPACE.servicebus.windows.net/.default"
        )
    return AzureToken(scope, trust()), (of.SCOPE,)


def _function(options: RawOptions, _login: Mapping[str, str], _trust: Callable[[], Tls]) -> _Made:
    return TokenProvider((options[of.PROVIDER] or "").strip()), ()


_FIXED: Final = "kafka.sasl.jaas.config"
_FUNCTION: Final = "saslTokenProvider"
#: Sources that ``saslTokenProvider`` names by one word.
_BUILT_IN: Final = (of.AWS, of.GOOGLE, of.AZURE)
#: The table of sources of tokens.
_SOURCES: Final[Mapping[str, Callable[[RawOptions, Mapping[str, str], Callable[[], Tls]], _Made]]] = {
    _FIXED: _fixed,
    of.CLIENT: _client,
    of.FILE: _file,
    of.ASSERTION: _assertion,
    of.AWS: _aws,
    of.GOOGLE: _google,
    of.AZURE: _azure,
    _FUNCTION: _function,
}


def _url(options: RawOptions) -> str:
    url = options[TOKEN_URL]
    if url is None:
        raise OptionError(f"option {TOKEN_URL.name} is not set, and {of.RETRIEVER.name} needs it: set it")
    return url.strip()


def _scope(options: RawOptions, login: Mapping[str, str]) -> str | None:
    scope = options[of.SCOPE]
    return login.get("scope") if scope is None else scope


def _patience(options: RawOptions) -> Patience:
    retries = bool(options.given(of.BACKOFF, of.BACKOFF_MAX))
    return Patience(
        options[of.CONNECT_TIMEOUT],
        options[of.READ_TIMEOUT],
        options[of.BACKOFF] if retries else 0.0,
        options[of.BACKOFF_MAX] if retries else 0.0,
    )


def _extensions(login: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """SASL extensions, which go to the broker with the token. Source: KIP-342."""
    extensions = tuple(
        (name.removeprefix("extension_"), value)
        for name, value in sorted(login.items())
        if name.startswith("extension_")
    )
    if not all(is_extension(name, value) for name, value in extensions):
        raise OptionError(
            f"option {JAAS.name}: the name of an extension has other signs than letters, or is auth; rename "
            "it (its value is not shown)"
        )
    return extensions


def _read(name: str, path: str) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise OptionError(
            f"option {name}: {quoted(path)} cannot be read on the driver: {reason}; give the path of a file "
            "that is there"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise OptionError(
            f"option {name}: {quoted(path)} is longer than {FILE_BYTES_MAX} bytes; give the path of a "
            "smaller file"
        )
    return data.decode("utf-8", "replace")


def needed(login: Mapping[str, str], name: str, instead: str = "") -> str:
    """An option of the login module. Raises ``OptionError`` (fatal) if it is missing."""
    value = login.get(name)
    if not value or "\0" in value:
        raise OptionError(
            f'option {JAAS.name} has no {name}: give it {name}="…"{instead} (its value is not shown)'
        )
    return value
