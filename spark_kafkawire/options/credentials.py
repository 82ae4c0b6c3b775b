"""Certificates, keys and logins that options hold, where connections are encrypted or log in.

Files are read here, once, so that they need to be on the driver only. What is in them, and every
secret, travels to the executors with the settings, and is in no error, repr or log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..errors import OptionError, quoted, shown
from ..net.oauth import ClientCredentials
from ..net.sasl import MECHANISMS, Password, Sasl, Token
from ..net.tls import Tls, context
from .jaas import JaasLogin, parse_jaas
from .raw import RawOptions, bad_value, word
from .security import HOST_NAME_CHECK, JAAS, KEY, TOKEN_URL, TRUST, capitals, mechanism_of

#: Longest PEM file, bytes. All public authorities together take 0.3 MB.
PEM_BYTES_MAX: Final = 4 << 20
#: How the other kinds of stores begin, and how they become PEM.
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"
_CONVERSIONS: Final = {
    TRUST: "keytool -list -rfc -keystore FILE > truststore.pem",
    KEY: "keytool -importkeystore -srckeystore FILE -destkeystore keystore.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in keystore.p12 -nodes -out keystore.pem",
}
#: A block ends before the next one begins, so that a search for its end goes no further.
_PEM_BLOCK: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]+)-----((?:(?!-----BEGIN ).)*?)-----END \1-----", re.DOTALL
)
#: The login module of each mechanism.
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}


def tls_of(options: RawOptions) -> Tls:
    """How connections are encrypted. Raises ``OptionError`` (fatal), which shows no secret."""
    algorithm = word(options.get(HOST_NAME_CHECK) or "")
    if algorithm not in ("https", ""):
        raise bad_value(HOST_NAME_CHECK, algorithm, "https, or nothing to give up the check of host names")
    tls = Tls(
        trust=_store(options, TRUST, ("certificates",)),
        identity=_store(options, KEY, ("key", "certificate.chain")),
        key_password=options.get("kafka.ssl.key.password"),
        checks_host_name=bool(algorithm),
    )
    context(tls)  # bad texts fail here, not in the tasks
    return tls


def _store(options: RawOptions, store: str, parts: tuple[str, ...]) -> str | None:
    """The PEM text of a store, from its file or from the options that hold its parts."""
    kind = capitals(options.get(f"{store}.type"))
    if kind not in ("", "PEM"):
        raise _not_pem(f"{store}.type", f"{shown(kind)} stores are")
    names = [f"{store}.{part}" for part in parts]
    given = options.given(*names)
    location = options.get(f"{store}.location")
    if location is not None:
        if given:
            raise OptionError(f"options {store}.location and {given[0]} are given; set one of them")
        return _pem(f"{store}.location", _read(f"{store}.location", location), f"{quoted(location)} holds")
    if not given:
        return None
    if len(given) < len(names):
        raise OptionError(f"option {given[0]} goes with {' and '.join(set(names) - set(given))}")
    return "".join(_pem(name, options.get(name) or "") for name in names)


def _read(name: str, location: str) -> str:
    try:
        with Path(location).open("rb") as file:
            data = file.read(PEM_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise OptionError(
            f"option {name}: {quoted(location)} cannot be read on the driver: {reason}"
        ) from error
    if len(data) > PEM_BYTES_MAX:
        raise OptionError(f"option {name}: {quoted(location)} is longer than {PEM_BYTES_MAX} bytes")
    if data.startswith(_JKS_MAGIC):
        raise _not_pem(name, "JKS stores are")
    if data.startswith(_DER_SEQUENCE) and b"-----BEGIN" not in data:
        raise _not_pem(name, "PKCS12 stores and DER files are")
    return data.decode("utf-8", "replace")


def _not_pem(name: str, what: str) -> OptionError:
    store = TRUST if name.startswith(TRUST) else KEY
    return OptionError(
        f"option {name}: {what} not read here, PEM is; convert it: {_CONVERSIONS[store]}; then set "
        f"{store}.type=PEM and {store}.location to the new file"
    )


def _pem(name: str, text: str, it: str = "its value, which is not shown, has") -> str:
    """The text's PEM blocks with their lines as OpenSSL wants them: options are often one line."""
    blocks = [(match[1], match[2]) for match in _PEM_BLOCK.finditer(text.replace("\\n", "\n"))]
    if not blocks:
        raise OptionError(f"option {name}: {it} no -----BEGIN …-----, as PEM has")
    return "".join(f"-----BEGIN {kind}-----\n{_lines(body)}\n-----END {kind}-----\n" for kind, body in blocks)


def _lines(body: str) -> str:
    if ":" in body:  # headers of an encrypted key of old
        return body.strip("\n")
    return "\n".join(re.findall(r"\S{1,64}", re.sub(r"\s+", "", body)))


def sasl_of(options: RawOptions) -> Sasl:
    """How the client logs in. Raises ``OptionError`` (fatal), which shows no secret."""
    mechanism = mechanism_of(options)
    if mechanism not in MECHANISMS:
        known = " or ".join(MECHANISMS)
        if mechanism in ("", "GSSAPI"):
            raise OptionError(f"option kafka.sasl.mechanism: set {known}; there is no Kerberos (GSSAPI) here")
        raise bad_value("kafka.sasl.mechanism", mechanism, known)
    text = options.get(JAAS)
    if text is None:
        raise OptionError(f"option {JAAS}: set it, for kafka.sasl.mechanism={mechanism}")
    login = parse_jaas(text)
    if login.module != _MODULES[mechanism]:
        raise OptionError(
            f"option {JAAS}: its login module is not {_MODULES[mechanism]}, which goes with "
            f"kafka.sasl.mechanism={mechanism} (its value is not shown)"
        )
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, _oauth(options, login))
    return Sasl(mechanism, _password(login))


def _password(login: JaasLogin) -> Password:
    if login.options.get("tokenauth", "").lower() == "true":
        raise OptionError(f"option {JAAS}: delegation tokens (tokenauth) are not supported")
    username, password = (_needed(login.options, name) for name in ("username", "password"))
    return Password(username, password)


def _oauth(options: RawOptions, login: JaasLogin) -> Token | ClientCredentials:
    extensions = _extensions(login)
    url = options.get(TOKEN_URL)
    if url is None:
        return Token(_token(login), extensions)
    # Connections without TLS get their tokens with it, too.
    tls = Tls(trust=_store(options, TRUST, ("certificates",)))
    context(tls)
    return ClientCredentials(
        endpoint_url=url.strip(),
        client_id=_needed(login.options, "clientId"),
        client_secret=_needed(login.options, "clientSecret"),
        scope=login.options.get("scope"),
        extensions=extensions,
        tls=tls,
    )


def _extensions(login: JaasLogin) -> tuple[tuple[str, str], ...]:
    """What goes to the broker beside the token. Source: KIP-342."""
    extensions = tuple(
        (name.removeprefix("extension_"), value)
        for name, value in sorted(login.options.items())
        if name.startswith("extension_")
    )
    if not all(re.fullmatch(r"[A-Za-z]+", name) and "\x01" not in value for name, value in extensions):
        raise OptionError(
            f"option {JAAS}: the name of an extension has letters only (its value is not shown)"
        )
    return extensions


def _token(login: JaasLogin) -> str:
    token = _needed(login.options, "token", f", or set {TOKEN_URL} with clientId and clientSecret")
    if not re.fullmatch(r"[!-~]+", token):
        raise OptionError(f"option {JAAS}: token is not one word of ASCII (its value is not shown)")
    return token


def _needed(options: Mapping[str, str], name: str, instead: str = "") -> str:
    value = options.get(name)
    if not value or "\0" in value:
        raise OptionError(f'option {JAAS}: give it {name}="…"{instead} (its value is not shown)')
    return value
