"""Certificates, keys and logins of connections to modern Kafka, from options of TLS and SASL.

Files are read here, once, so that they need to be on the driver only. Their content, and every
secret, travels to the executors with the settings, and is in no error, repr or log.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import LOG, OptionError, printable, quoted
from ..net.logins.mechanism import Password
from ..net.logins.table import MECHANISMS
from ..net.sasl import Sasl
from ..net.tls import OF_BROKERS, Tls, TlsNames, context
from .aws import aws_login_of
from .jaas import JaasLogin, parse_jaas
from .login_options import AWS, CHOOSING_OPTIONS, CLIENT_HANDLER, HANDLER, PROVIDER, TOKEN_OPTIONS
from .option import Option, bad_value
from .raw import RawOptions
from .regular_files import open_regular
from .security import JAAS, MECHANISM, TLS_OPTIONS, TlsOptions
from .tokens import bearer_of, needed

#: Longest PEM file, bytes. All public authorities together take 0.3 MB.
PEM_BYTES_MAX: Final = 4 << 20
#: First bytes of the other kinds of stores, and the commands that convert them to PEM.
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"
_CONVERSIONS: Final = {
    "truststore": "keytool -list -rfc -keystore FILE > truststore.pem",
    "keystore": "keytool -importkeystore -srckeystore FILE -destkeystore keystore.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in keystore.p12 -nodes -out keystore.pem",
}
#: A block ends before the next one begins, so that a search for its end goes no further.
_PEM_BLOCK: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]+)-----((?:(?!-----BEGIN ).)*?)-----END \1-----", re.DOTALL
)
#: Effects of a missing location of a store.
_WITHOUT: Final = {
    "truststore": "to trust the system's authorities",
    "keystore": "where the server asks for no certificate of the client",
}


def tls_of(options: RawOptions, names: TlsOptions = TLS_OPTIONS, of: TlsNames = OF_BROKERS) -> Tls:
    """Encryption of connections. Raises ``OptionError`` (fatal), which shows no secret."""
    tls = Tls(
        trust=_trust(options, names),
        identity=_store(
            options, names.key_type, names.key_location, (names.key_text, names.key_certificates)
        ),
        key_password=options[names.key_password],
        checks_host_name=options[names.checks_host_name],
        names=of,
    )
    context(tls)  # bad texts fail here, not in the tasks
    return tls


def _trust(options: RawOptions, names: TlsOptions) -> str | None:
    """The PEM text of the authorities to trust; None for the system's."""
    return _store(options, names.trust_type, names.trust_location, (names.trust_certificates,))


def _store(
    options: RawOptions,
    store_type: Option[str | None],
    store_location: Option[str | None],
    parts: tuple[Option[str | None], ...],
) -> str | None:
    """The PEM text of a store, from its file or from the options that hold its parts."""
    kind = options[store_type] or ""
    if kind not in ("", "PEM"):
        raise _not_pem(store_type.name, f"{printable(kind)} stores are")
    names = [part.name for part in parts]
    given = options.given(*parts)
    name, location = store_location.name, options[store_location]
    if location is not None and not location.strip():
        raise OptionError(
            f"option {name}: the path is empty; give that of a PEM file that is on the driver, or "
            f"leave the option out {_WITHOUT[_store_of(name)[1]]}"
        )
    if location is not None:
        if given:
            raise OptionError(f"options {name} and {given[0]} are given; set one of them")
        return _pem(name, _read(name, location), f"{quoted(location)} holds")
    if not given:
        return None
    if len(given) < len(names):
        raise OptionError(f"option {given[0]} needs {' and '.join(set(names) - set(given))}")
    return "".join(_pem(part.name, options[part] or "") for part in parts)


def _store_of(name: str) -> tuple[str, str]:
    """The store that an option is about, ``kafka.ssl.truststore``, and its kind, ``truststore``."""
    store = name[: name.index("store.") + len("store")]
    return store, store.rpartition(".")[2]


def _read(name: str, location: str) -> str:
    try:
        with open_regular(location) as file:
            data = file.read(PEM_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise OptionError(
            f"option {name}: {quoted(location)} cannot be read on the driver: {reason}; give the path of a "
            "PEM file that is on the driver"
        ) from error
    if len(data) > PEM_BYTES_MAX:
        raise OptionError(f"option {name}: {quoted(location)} is longer than {PEM_BYTES_MAX} bytes")
    if data.startswith(_JKS_MAGIC):
        raise _not_pem(name, "JKS stores are")
    if data.startswith(_DER_SEQUENCE) and b"-----BEGIN" not in data:
        raise _not_pem(name, "PKCS12 stores and DER files are")
    return data.decode("utf-8", "replace")


def _not_pem(name: str, what: str) -> OptionError:
    store, kind = _store_of(name)
    return OptionError(
        f"option {name}: {what} not read here, PEM is; convert it: {_CONVERSIONS[kind]}; then set "
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
    """Login of the client. Raises ``OptionError`` (fatal), which shows no secret."""
    mechanism = options[MECHANISM] or ""
    if mechanism not in MECHANISMS:
        known = " or ".join(MECHANISMS)
        if mechanism in ("", "GSSAPI"):
            raise OptionError(f"option kafka.sasl.mechanism: set {known}; Kerberos (GSSAPI) is not supported")
        raise bad_value("kafka.sasl.mechanism", mechanism, known)
    login = _login(options, mechanism)
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, bearer_of(options, login.options, lambda: _trust_alone(options)))
    if mechanism == "AWS_MSK_IAM" and _has_amazons_handlers(options):
        return Sasl(mechanism, aws_login_of(login.options, _trust_alone(options)))
    if foreign := options.given(*CHOOSING_OPTIONS):
        raise OptionError(
            f"option {foreign[0]}: kafka.sasl.mechanism={mechanism} takes its credentials from {JAAS.name} "
            "alone; leave the option out"
        )
    if unused := options.given(*TOKEN_OPTIONS):
        LOG.warning("kafka.sasl.mechanism=%s does not use %s", mechanism, ", ".join(unused))
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
        raise OptionError(f"option {JAAS.name}: set it, for kafka.sasl.mechanism={mechanism}")
    login = parse_jaas(text)
    if login.module != module:
        raise OptionError(
            f"option {JAAS.name}: its login module is not {module}, which belongs to "
            f"kafka.sasl.mechanism={mechanism} (its value is not shown)"
        )
    return login


def _password(login: JaasLogin) -> Password:
    if login.options.get("tokenauth", "").lower() == "true":
        raise OptionError(f"option {JAAS.name}: delegation tokens (tokenauth) are not supported")
    username, password = (needed(login.options, name) for name in ("username", "password"))
    return Password(username, password)


def _trust_alone(options: RawOptions) -> Tls:
    """The certificates that token endpoints are checked against. Connections without TLS have them, too."""
    tls = Tls(trust=_trust(options, TLS_OPTIONS))
    context(tls)
    return tls
