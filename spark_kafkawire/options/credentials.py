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
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from ..errors import LOG, OptionError, printable, quote
from ..net.logins import Password
from ..net.logins.aws import AwsLogin, Keys, MskToken
from ..net.logins.kerberos import KerberosLogin
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
from . import security as of
from .jaas import JaasLogin, parse_jaas
from .option import Option, RawOptions, bad_value, file_bytes, word
from .security import Layers, Tokens
from .tls import check, load_trusted

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
    if empty := [name for name in _KNOWN if name in login and not re.fullmatch("[ -~]+", login[name])]:
        raise _bad(f"its option {empty[0]} is empty, or not of printable ASCII; correct or remove it")
    if _ROLE not in login and (of_role := [name for name in _OF_ROLE if name in login]):
        raise _bad(f"its option {of_role[0]} needs {_ROLE}; add that, or remove the option")
    if (_ACCESS in login) != (_SECRET in login) or (_SESSION in login and _ACCESS not in login):
        raise _bad(f"{_ACCESS} and {_SECRET} need each other, and {_SESSION} needs both; add what is missing")
    if _ROLE in login and _PROFILE in login:
        raise _bad(f"it has {_PROFILE} and {_ROLE}; give one of them")
    if unused := [name for name in _UNUSED_OF_AWS if name in login]:
        LOG.warning("option %s: kafkawire does not use %s", Layers.jaas.name, ", ".join(unused))
    keys = Keys(login[_ACCESS], login[_SECRET], login.get(_SESSION)) if _ACCESS in login else None
    return AwsLogin(
        login.get(_PROFILE),
        login.get(_ROLE),
        login.get(_SESSION_NAME, AwsLogin().role_session_name),
        login.get(_EXTERNAL_ID),
        keys,
        login.get(_STS_REGION),
    )


def _bad(problem: str) -> OptionError:
    return OptionError(f"option {Layers.jaas}: {problem} (its value is not shown)")


#: Longest file of a key or a template, bytes.
FILE_BYTES_MAX: Final = 1 << 20


def bearer_of(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> Bearer:
    """The login with bearer tokens. ``login`` are the options of the login module; ``trust`` reads the
    certificates that token endpoints are checked against. Raises ``OptionError`` (fatal)."""
    for item in (Tokens.login_class, Tokens.validator):
        options[item]  # unknown classes are refused
    chosen = _choose_source(options)
    source = _SOURCES[chosen](options, login, trust)
    renewal = Renewal(
        *(options[Tokens.refresh_factor], options[Tokens.refresh_jitter]),
        *(options[Tokens.refresh_period_min], options[Tokens.refresh_buffer]),
    )
    if unused := options.unread(*Tokens.options(), Layers.token_url):
        LOG.warning("tokens of %s do not use %s", chosen, ", ".join(unused))
    return Bearer(source, _extensions(login), renewal)


def _choose_source(options: RawOptions) -> str:
    """The name of the source of tokens. Raises ``OptionError`` (fatal) if two options choose differently."""
    by_class = {
        item.name: options[item] for item in (Tokens.handler, Tokens.client_handler, Tokens.retriever)
    }
    chosen = {name: source for name, source in by_class.items() if source}
    if options.given(Tokens.provider):
        given = (options[Tokens.provider] or "").strip()
        chosen = {Tokens.provider.name: given if given in _BUILT_IN else _FUNCTION, **chosen}
    if len(set(chosen.values())) > 1:
        raise OptionError(
            f"options {' and '.join(chosen)} choose different sources of tokens; set one of them"
        )
    return next(iter(chosen.values()), "") or _choose_by_options(options)


def _choose_by_options(options: RawOptions) -> str:
    url = options[Layers.token_url]
    if url is None:
        return _FIXED
    if url.strip().lower().startswith("file:"):
        return of.FILE
    return of.ASSERTION if options.given(Tokens.key_file, Tokens.assertion_file) else of.CLIENT


def _make_fixed(_options: RawOptions, login: Mapping[str, str], _trust: Callable[[], Tls]) -> TokenSource:
    client = f"{Tokens.client_id} and {Tokens.client_secret}"
    instead = f", or set {Layers.token_url} with {client}, or {of.PROVIDER_NAME}"
    token = require_option(login, "token", instead)
    if not is_token(token):
        raise OptionError(
            f"option {Layers.jaas}: token is not one word of ASCII (its value is not shown); correct it"
        )
    return FixedToken(token)


def _client(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> TokenSource:
    in_options = bool(options.given(Tokens.client_id, Tokens.client_secret))
    pairs = ((Tokens.client_id, "clientId"), (Tokens.client_secret, "clientSecret"))
    # Each may be in either place; the options take precedence, as in Java's client.
    name, secret = (_option_or(options, item, login, name, in_options) for item, name in pairs)
    return ClientCredentials(
        endpoint_url=_url(options),
        client_id=name,
        client_secret=secret,
        scope=_scope(options, login),
        tls=trust(),
        names=IN_OPTIONS if in_options else OF_BROKERS,
        encodes_header=options[Tokens.encodes_header],
        patience=_patience(options),
    )


def _option_or(
    options: RawOptions, given: Option[str | None], login: Mapping[str, str], name: str, in_options: bool
) -> str:
    value = options[given]
    if value is None and in_options and name not in login:
        raise OptionError(f"option {given} is not set, and the login needs it: set it, too")
    if value is None:
        return require_option(login, name, f", or set {given}")
    if not value:
        raise OptionError(f"option {given} is empty; set it to the secret of the login, or leave it out")
    if "\0" in value:
        raise OptionError(f"option {given} has a character NUL (its value is not shown); remove it")
    return value


def _file(options: RawOptions, _login: Mapping[str, str], _trust: Callable[[], Tls]) -> TokenSource:
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
            f"option {Layers.token_url} is not of the form file:///path/of/a/token (its value is not shown)"
        )
    return TokenFile(path)


def _assertion(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> TokenSource:
    path = options[Tokens.assertion_file]
    signer, claims = None, Claims()
    if path is None:
        key = options[Tokens.key_file]
        if key is None:
            raise OptionError(f"option {Tokens.key_file} is not set: set it, or {Tokens.assertion_file}")
        signer = Signer(
            options[Tokens.algorithm],
            _read(Tokens.key_file.name, key),
            options[Tokens.key_passphrase] or None,
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
    return source


def _claims(options: RawOptions) -> Claims:
    named = {"aud": Tokens.audience, "iss": Tokens.issuer, "sub": Tokens.subject}
    values = ((name, options[item]) for name, item in named.items())
    header, payload = _template(options)
    return Claims(
        tuple((name, value) for name, value in values if value is not None),
        header,
        payload,
        options[Tokens.expires],
        options[Tokens.not_before],
        options[Tokens.has_id],
    )


def _template(options: RawOptions) -> tuple[str, str]:
    """The header and the payload of a template, JSON objects as text."""
    path = options[Tokens.template_file]
    if path is None:
        return "{}", "{}"
    name = Tokens.template_file.name
    text = _read(name, path)
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        result = None
    parts = [result.get(part, {}) if isinstance(result, dict) else None for part in ("header", "payload")]
    if not all(isinstance(part, dict) for part in parts):
        raise OptionError(
            f"option {name}: {quote(path)} is not a JSON object of the objects header and payload; correct it"
        )
    return json.dumps(parts[0]), json.dumps(parts[1])


def _azure(options: RawOptions, login: Mapping[str, str], trust: Callable[[], Tls]) -> TokenSource:
    scope = (_scope(options, login) or "").strip()
    if not scope.endswith("/.default"):
        raise OptionError(
            f"option {Tokens.scope}: {of.PROVIDER_NAME}=azure needs a scope that ends in /.default, such as "
            "https://NAMESPACE.servicebus.windows.net/.default"
        )
    return AzureToken(scope, trust())


_FIXED: Final = "kafka.sasl.jaas.config"
_FUNCTION: Final = "saslTokenProvider"
#: Sources that ``saslTokenProvider`` names by one word.
_BUILT_IN: Final = (of.AWS, of.GOOGLE, of.AZURE)
#: The table of sources of tokens.
_SOURCES: Final[Mapping[str, Callable[[RawOptions, Mapping[str, str], Callable[[], Tls]], TokenSource]]] = {
    _FIXED: _make_fixed,
    of.CLIENT: _client,
    of.FILE: _file,
    of.ASSERTION: _assertion,
    of.AWS: lambda _options, login, _trust: MskToken(aws_login_of(login)),
    of.GOOGLE: lambda _options, _login, trust: GoogleToken(trust()),
    of.AZURE: _azure,
    _FUNCTION: lambda options, _login, _trust: TokenProvider((options[Tokens.provider] or "").strip()),
}


def _url(options: RawOptions) -> str:
    url = options[Layers.token_url]
    if url is None:
        raise OptionError(f"option {Layers.token_url} is not set, and {Tokens.retriever} needs it: set it")
    return url.strip()


def _scope(options: RawOptions, login: Mapping[str, str]) -> str | None:
    scope = options[Tokens.scope]
    return login.get("scope") if scope is None else scope


def _patience(options: RawOptions) -> Patience:
    retries = bool(options.given(Tokens.backoff, Tokens.backoff_max))
    return Patience(
        options[Tokens.connect_timeout],
        options[Tokens.read_timeout],
        options[Tokens.backoff] if retries else 0.0,
        options[Tokens.backoff_max] if retries else 0.0,
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
            f"option {Layers.jaas}: the name of an extension has other signs than letters, or is auth; "
            "rename it (its value is not shown)"
        )
    return extensions


def _read(name: str, path: str) -> str:
    advice = "give the path of a file that is there"
    where = f"option {name}: {quote(path)}"
    data = file_bytes(where, path, FILE_BYTES_MAX, advice, "give the path of a smaller file")
    return data.decode("utf-8", "replace")


def require_option(login: Mapping[str, str], name: str, instead: str = "") -> str:
    """An option of the login module. Raises ``OptionError`` (fatal) if it is missing."""
    value = login.get(name)
    if not value or "\0" in value:
        raise OptionError(
            f'option {Layers.jaas} has no {name}: give it {name}="…"{instead} (its value is not shown)'
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
    text = options[Layers.jaas]
    is_kerberos = options.given(Layers.service_name) or (
        text is not None and parse_jaas(text).module == _MODULE
    )
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
        LOG.warning("option %s: kafkawire does not use %s", Layers.jaas.name, ", ".join(unused))
    service, principal = _service_name(options, login), login.get(_PRINCIPAL)
    if flags.get(_USES_KEY_TAB):
        if flags.get(_USES_CACHE):
            LOG.warning(
                "option %s: kafkawire does not use %s beside %s", Layers.jaas.name, _USES_CACHE, _USES_KEY_TAB
            )
        return KerberosLogin(service, require_option(login, _PRINCIPAL), require_option(login, _KEY_TAB))
    if _KEY_TAB in login:
        raise _bad(f"its option {_KEY_TAB} needs {_USES_KEY_TAB}=true; add that, or remove the option")
    if not flags.get(_USES_CACHE):
        raise _bad(f"it names neither a key tab nor tickets; {_FORM}")
    return KerberosLogin(service, principal, None, login.get(_CACHE))


def _service_name(options: RawOptions, login: Mapping[str, str]) -> str:
    by_option, by_module = options[Layers.service_name], login.get(_SERVICE)
    service = by_module if by_option is None else by_option
    if not service:
        raise OptionError(
            f"option {Layers.service_name} is not set: set it to the first part of the brokers' principals, "
            "such as kafka in kafka/host@REALM"
        )
    if by_module not in (None, service):
        raise OptionError(
            f"option {Layers.service_name} is {printable(service)}, but {_SERVICE} in {Layers.jaas} is "
            f"{printable(by_module)}: set only one of them"
        )
    if not _is_text(service) or set(service) & set("/@ "):
        raise OptionError(
            f"option {Layers.service_name}: {printable(service)} is not a name of a service, such as kafka: "
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
    mechanism = options[Layers.mechanism] or default_mechanism(options)
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
    if foreign := options.given(*of.CHOOSING_OPTIONS):
        raise OptionError(
            f"option {foreign[0]}: kafka.sasl.mechanism={mechanism} takes its credentials from {Layers.jaas} "
            "alone; leave the option out"
        )
    if unused := options.given(*Tokens.options()):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, ", ".join(unused))
    if mechanism == "GSSAPI":
        return Sasl(mechanism, kerberos_login_of(options, login.options))
    if options.given(Layers.service_name):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, Layers.service_name.name)
    if mechanism in HASHES:
        return Sasl(mechanism, _scram(login, delegates=options[Layers.delegates]))
    return Sasl(mechanism, _password(login))


def _has_amazons_handlers(options: RawOptions) -> bool:
    """True if no option chooses other credentials than those of AWS. Raises ``OptionError`` (fatal) for an
    unknown class of Java."""
    return not options.given(Tokens.provider) and {
        options[Tokens.handler],
        options[Tokens.client_handler],
    } <= {None, of.AWS}


def _login(options: RawOptions, mechanism: str) -> JaasLogin:
    """The login module. One without options may be left out."""
    text, module = options[Layers.jaas], MECHANISMS[mechanism].module
    if text is None and mechanism in ("OAUTHBEARER", "AWS_MSK_IAM"):
        return JaasLogin(module, {})
    if text is None:
        raise OptionError(
            f"option {Layers.jaas} is not set, and kafka.sasl.mechanism={mechanism} needs it: set it to "
            f"'{module} required …;'"
        )
    login = parse_jaas(text)
    if login.module != module:
        meant = [item.name for item in MECHANISMS.values() if item.module == login.module]
        other = f", or set kafka.sasl.mechanism={' or '.join(meant)}" if meant else ""
        raise OptionError(
            f"option {Layers.jaas}: its login module is {login.module if meant else 'another one'}, and "
            f"kafka.sasl.mechanism={mechanism} needs {module} (its value is not shown): begin it with "
            f"{module}{other}"
        )
    return login


def _password(login: JaasLogin) -> Password:
    username, password = (require_option(login.options, name) for name in ("username", "password"))
    return Password(username, password)


def _scram(login: JaasLogin, *, delegates: bool) -> Password:
    """A password, or a delegation token: its id is the user name then."""
    result = _password(login)
    if login.options.get("tokenauth", "").lower() != "true":
        return result
    if delegates:
        raise OptionError(
            f"option {Layers.delegates}: brokers give no token to a client that logs in with one; leave out "
            f"the option, or tokenauth in {Layers.jaas}"
        )
    return DelegationToken(result.username, result.password)


def _trust_alone(options: RawOptions) -> Tls:
    """The certificates that token endpoints are checked against. Connections without TLS have them, too."""
    tls = Tls(trust=load_trusted(options))
    check(tls, options)
    return tls
