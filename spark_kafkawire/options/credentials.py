"""Logins of connections to modern Kafka, from options of SASL and of the login modules: passwords, sources of
bearer tokens, the identity of AWS, and Kerberos.

    com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true keyTab="/etc/security/alice.keytab" principal="alice@EXAMPLE.COM";

Files of keys and templates are read here, on the driver. Files of tokens, key tabs and ticket caches are read
where connections are made. Secrets travel to the executors with the settings, and are in no error, repr or
log.

Source: Java's Krb5LoginModule; KerberosLogin.java and LoginManager.java of Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..errors import LOG, OptionError, printable, quoted
from ..net.logins.aws import AwsLogin, Keys, MskToken
from ..net.logins.kerberos import KerberosLogin
from ..net.logins.mechanism import Password
from ..net.logins.oauthbearer import Bearer
from ..net.logins.passwords import HASHES, DelegationToken
from ..net.logins.tokens.clouds import AzureToken, GoogleToken
from ..net.logins.tokens.oauth import (
    IN_OPTIONS,
    OF_BROKERS,
    Claims,
    ClientCredentials,
    JwtAssertion,
    Patience,
    Signer,
)
from ..net.logins.tokens.token import (
    FixedToken,
    Renewal,
    TokenFile,
    TokenProvider,
    TokenSource,
    is_extension,
    is_token,
)
from ..net.sasl import MECHANISMS, Sasl
from ..net.tls import Tls
from ..regular_files import Unreadable, read_regular
from . import security as of
from .jaas import JaasLogin, parse_jaas
from .option import Option, RawOptions, bad_value, word
from .security import (
    AWS,
    CHOOSING_OPTIONS,
    CLIENT_HANDLER,
    DELEGATES,
    HANDLER,
    JAAS,
    MECHANISM,
    PROVIDER,
    SERVICE_NAME,
    TOKEN_OPTIONS,
    TOKEN_URL,
)
from .tls import check, trusted

_PROFILE: Final = "awsProfileName"
_ROLE: Final = "awsRoleArn"
_SESSION_NAME: Final = "awsRoleSessionName"
_EXTERNAL_ID: Final = "awsRoleExternalId"
_ACCESS: Final = "awsRoleAccessKeyId"
_SECRET: Final = "awsRoleSecretAccessKey"
_SESSION: Final = "awsRoleSessionToken"
_STS_REGION: Final = "awsStsRegion"
#: Options that only mean something with a role.
_OF_ROLE: Final = (_SESSION_NAME, _EXTERNAL_ID, _ACCESS, _SECRET, _SESSION)
#: Options without an effect: retries are those of all connections.
_UNUSED_OF_AWS: Final = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")
_KNOWN: Final = (_PROFILE, _ROLE, *_OF_ROLE, _STS_REGION, *_UNUSED_OF_AWS)


def aws_login_of(login: Mapping[str, str]) -> AwsLogin:
    """The identity that the login module names. Raises ``OptionError`` (fatal), which shows no value."""
    if unknown := [name for name in login if name.startswith("aws") and name not in _KNOWN]:
        raise _bad(f"it has the unknown option {printable(unknown[0])}; known are {', '.join(_KNOWN)}")
    if empty := [name for name in _KNOWN if name in login and not _is_aws_text(login[name])]:
        raise _bad(f"its option {empty[0]} is empty, or not of printable ASCII; correct or remove it")
    if _ROLE not in login and (of_role := [name for name in _OF_ROLE if name in login]):
        raise _bad(f"its option {of_role[0]} needs {_ROLE}; add that, or remove the option")
    if (_ACCESS in login) != (_SECRET in login) or (_SESSION in login and _ACCESS not in login):
        raise _bad(f"{_ACCESS} and {_SECRET} need each other, and {_SESSION} needs both; add what is missing")
    if _ROLE in login and _PROFILE in login:
        raise _bad(f"it has {_PROFILE} and {_ROLE}; give one of them")
    if unused := [name for name in _UNUSED_OF_AWS if name in login]:
        LOG.warning("option %s: kafkawire does not use %s", JAAS.name, ", ".join(unused))
    keys = Keys(login[_ACCESS], login[_SECRET], login.get(_SESSION)) if _ACCESS in login else None
    return AwsLogin(
        login.get(_PROFILE),
        login.get(_ROLE),
        login.get(_SESSION_NAME, AwsLogin().role_session_name),
        login.get(_EXTERNAL_ID),
        keys,
        login.get(_STS_REGION),
    )


def _is_aws_text(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable()


def _bad(problem: str) -> OptionError:
    return OptionError(f"option {JAAS.name}: {problem} (its value is not shown)")


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
    advice = "give the path of a file that is there", "give the path of a smaller file"
    try:
        return read_regular(path, FILE_BYTES_MAX, "on the driver", *advice).decode("utf-8", "replace")
    except Unreadable as error:
        raise OptionError(f"option {name}: {quoted(path)} {error}") from error


def needed(login: Mapping[str, str], name: str, instead: str = "") -> str:
    """An option of the login module. Raises ``OptionError`` (fatal) if it is missing."""
    value = login.get(name)
    if not value or "\0" in value:
        raise OptionError(
            f'option {JAAS.name} has no {name}: give it {name}="…"{instead} (its value is not shown)'
        )
    return value


_MODULE: Final = "Krb5LoginModule"
_USES_KEY_TAB: Final = "useKeyTab"
_KEY_TAB: Final = "keyTab"
_PRINCIPAL: Final = "principal"
_USES_CACHE: Final = "useTicketCache"
_CACHE: Final = "ticketCache"
_SERVICE: Final = "serviceName"
_INITIATES: Final = "isInitiator"
_NAMED: Final = (_KEY_TAB, _PRINCIPAL, _CACHE, _SERVICE)
#: Options that change nothing here: nobody is asked for a password, and the files are read again in any case.
_QUIET: Final = ("doNotPrompt", "storeKey", "refreshKrb5Config", "debug")
#: Options with another effect in Java.
_UNUSED: Final = ("renewTGT", "useFirstPass", "tryFirstPass", "storePass", "clearPass")
_FLAGS: Final = (_USES_KEY_TAB, _USES_CACHE, _INITIATES, *_QUIET, *_UNUSED)
_FORM: Final = (
    f'set {_USES_KEY_TAB}=true with {_KEY_TAB}="…" and {_PRINCIPAL}="…", or {_USES_CACHE}=true for tickets '
    "of kinit"
)


def default_mechanism(options: RawOptions) -> str:
    """The mechanism without ``kafka.sasl.mechanism``: as in Java GSSAPI, if other options are those of
    Kerberos."""
    text = options[JAAS]
    is_kerberos = options.given(SERVICE_NAME) or (text is not None and parse_jaas(text).module == _MODULE)
    return "GSSAPI" if is_kerberos else ""


def kerberos_login_of(options: RawOptions, login: Mapping[str, str]) -> KerberosLogin:
    """The login that the options of the login module describe. Raises ``OptionError`` (fatal)."""
    known = (*_NAMED, *_FLAGS)
    if unknown := [name for name in login if name not in known]:
        raise _bad(f"it has the unknown option {printable(unknown[0])}; known are {', '.join(known)}")
    if empty := [name for name in _NAMED if name in login and not _is_text(login[name])]:
        raise _bad(f"its option {empty[0]} is empty, or has a character that cannot be printed; correct it")
    flags = {name: _flag(name, login[name]) for name in _FLAGS if name in login}
    if not flags.get(_INITIATES, True):
        raise _bad(f"{_INITIATES}=false is for servers; leave it out")
    if unused := [name for name in _UNUSED if flags.get(name)]:
        LOG.warning("option %s: kafkawire does not use %s", JAAS.name, ", ".join(unused))
    service, principal = _service_name(options, login), login.get(_PRINCIPAL)
    if flags.get(_USES_KEY_TAB):
        if flags.get(_USES_CACHE):
            LOG.warning(
                "option %s: kafkawire does not use %s beside %s", JAAS.name, _USES_CACHE, _USES_KEY_TAB
            )
        return KerberosLogin(service, needed(login, _PRINCIPAL), needed(login, _KEY_TAB))
    if _KEY_TAB in login:
        raise _bad(f"its option {_KEY_TAB} needs {_USES_KEY_TAB}=true; add that, or remove the option")
    if not flags.get(_USES_CACHE):
        raise _bad(f"it names neither a key tab nor tickets; {_FORM}")
    return KerberosLogin(service, principal, None, login.get(_CACHE))


def _service_name(options: RawOptions, login: Mapping[str, str]) -> str:
    by_option, by_module = options[SERVICE_NAME], login.get(_SERVICE)
    service = by_module if by_option is None else by_option
    if not service:
        raise OptionError(
            f"option {SERVICE_NAME.name} is not set: set it to the first part of the brokers' principals, "
            "such as kafka in kafka/host@REALM"
        )
    if by_module not in (None, service):
        raise OptionError(
            f"option {SERVICE_NAME.name} is {printable(service)}, but {_SERVICE} in {JAAS.name} is "
            f"{printable(by_module)}: set only one of them"
        )
    if not _is_text(service) or set(service) & set("/@ "):
        raise OptionError(
            f"option {SERVICE_NAME.name}: {printable(service)} is not a name of a service, such as kafka: "
            "leave host and realm out"
        )
    return service


def _flag(name: str, value: str) -> bool:
    flag = word(value)
    if flag not in ("true", "false"):
        raise _bad(f"its option {name} is not true or false; set one of them")
    return flag == "true"


def _is_text(value: str) -> bool:
    return bool(value) and value.isprintable()


def sasl_of(options: RawOptions) -> Sasl:
    """Login of the client. Raises ``OptionError`` (fatal), which shows no secret."""
    mechanism = options[MECHANISM] or default_mechanism(options)
    if mechanism not in MECHANISMS:
        known = " or ".join(MECHANISMS)
        if not mechanism:
            raise OptionError(f"option kafka.sasl.mechanism is not set: set it to {known}")
        raise bad_value("kafka.sasl.mechanism", mechanism, known)
    login = _login(options, mechanism)
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, bearer_of(options, login.options, lambda: _trust_alone(options)))
    if mechanism == "AWS_MSK_IAM" and _has_amazons_handlers(options):
        return Sasl(mechanism, aws_login_of(login.options))
    if foreign := options.given(*CHOOSING_OPTIONS):
        raise OptionError(
            f"option {foreign[0]}: kafka.sasl.mechanism={mechanism} takes its credentials from {JAAS.name} "
            "alone; leave the option out"
        )
    if unused := options.given(*TOKEN_OPTIONS):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, ", ".join(unused))
    if mechanism == "GSSAPI":
        return Sasl(mechanism, kerberos_login_of(options, login.options))
    if options.given(SERVICE_NAME):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, SERVICE_NAME.name)
    if mechanism in HASHES:
        return Sasl(mechanism, _scram(login, delegates=options[DELEGATES]))
    return Sasl(mechanism, _password(login))


def _has_amazons_handlers(options: RawOptions) -> bool:
    """True if no option chooses other credentials than those of AWS. Raises ``OptionError`` (fatal) for an
    unknown class of Java."""
    return not options.given(PROVIDER) and {options[HANDLER], options[CLIENT_HANDLER]} <= {None, AWS}


def _login(options: RawOptions, mechanism: str) -> JaasLogin:
    """The login module. One without options may be left out."""
    text, module = options[JAAS], MECHANISMS[mechanism].module
    if text is None and mechanism in ("OAUTHBEARER", "AWS_MSK_IAM"):
        return JaasLogin(module, {})
    if text is None:
        raise OptionError(
            f"option {JAAS.name} is not set, and kafka.sasl.mechanism={mechanism} needs it: set it to "
            f"'{module} required …;'"
        )
    login = parse_jaas(text)
    if login.module != module:
        raise OptionError(
            f"option {JAAS.name}: its login module is not that of kafka.sasl.mechanism={mechanism}; begin "
            f"it with {module} (its value is not shown)"
        )
    return login


def _password(login: JaasLogin) -> Password:
    username, password = (needed(login.options, name) for name in ("username", "password"))
    return Password(username, password)


def _scram(login: JaasLogin, *, delegates: bool) -> Password | DelegationToken:
    """A password, or a delegation token: its id is the user name then."""
    found = _password(login)
    if login.options.get("tokenauth", "").lower() != "true":
        return found
    if delegates:
        raise OptionError(
            f"option {DELEGATES.name}: brokers give no token to a client that logs in with one; leave out "
            f"the option, or tokenauth in {JAAS.name}"
        )
    return DelegationToken(found.username, found.password)


def _trust_alone(options: RawOptions) -> Tls:
    """The certificates that token endpoints are checked against. Connections without TLS have them, too."""
    tls = Tls(trust=trusted(options))
    check(tls, options)
    return tls
