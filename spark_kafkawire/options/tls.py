"""Certificates, keys, versions and cipher suites of TLS, from the options of one kind of peer.

Stores are read here, once, so that they need to be on the driver only. What they contain travels to the
executors as PEM with the settings, and is in no error, repr or log. Versions and suites have the names
that Java has for them.
"""

from __future__ import annotations

from collections.abc import Callable
from ssl import TLSVersion
from typing import Final, NamedTuple

from ..errors import OptionError, quote
from ..net.stores import (
    JKS,
    PEM,
    PKCS12,
    Store,
    StoreError,
    identity_of,
    kind_of,
    normalize_pem,
    trust_of,
    unsupported,
)
from ..net.tls import OF_BROKERS, Tls, TlsLimits, TlsNames, context
from .option import Option, RawOptions, bad_value, capitals, file_bytes, hint, warn_once
from .security import BrokerTls, TlsOptions

#: OpenSSL's names of all suites of TLS 1.2 that Java 17 has. Source: openssl ciphers -stdname.
TLS_1_2_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384": "DHE-DSS-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256": "DHE-DSS-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256": "DHE-DSS-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256": "DHE-DSS-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": "DHE-RSA-AES256-SHA",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA": "DHE-DSS-AES256-SHA",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": "DHE-RSA-AES128-SHA",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA": "DHE-DSS-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
#: The suites of TLS 1.3 in Java, which are those of OpenSSL. Python cannot choose among them.
TLS_1_3_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
#: Java's mark of a safe renegotiation, which OpenSSL sends without being asked.
_NO_SUITE: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_VERSIONS: Final = {"TLSV1.2": TLSVersion.TLSv1_2, "TLSV1.3": TLSVersion.TLSv1_3}
_OLDER: Final = ("TLSV1.1", "TLSV1", "SSLV3", "SSLV2", "SSLV2HELLO")
#: Java's contexts of any version.
_ANY_VERSION: Final = ("TLS", "SSL")


def limits_of(options: RawOptions, names: type[TlsOptions]) -> TlsLimits:
    """The versions and the suites that the options leave. Raises ``OptionError`` (fatal)."""
    versions = _parse_versions(options, names)
    highest = _highest(options, names)
    versions = {version for version in versions if version <= highest}
    suites, versions = _suites(options, names, versions)
    if not versions:
        used = options.given(names.enabled_protocols, names.protocol, names.cipher_suites)
        raise OptionError(
            f"options {' and '.join(used)} leave no version of TLS; set versions and suites that go together"
        )
    return TlsLimits(min(versions), max(versions), suites)


def _parse_list(text: str | None) -> list[str]:
    """The words of a list with commas, in capitals."""
    return [capitals(item) for item in (text or "").split(",") if item.strip()]


def _parse_versions(options: RawOptions, names: type[TlsOptions]) -> set[TLSVersion]:
    name, given = names.enabled_protocols.name, _parse_list(options[names.enabled_protocols])
    for version in given:
        if version not in (*_VERSIONS, *_OLDER):
            raise bad_value(name, version, "TLSv1.2 or TLSv1.3, or both with a comma between them")
    older = [version for version in given if version in _OLDER]
    enabled = {_VERSIONS[version] for version in given if version in _VERSIONS}
    if older and not enabled:
        raise OptionError(
            f"option {name}: {quote(options[names.enabled_protocols] or '')}: versions before TLS 1.2 are "
            "not supported; set TLSv1.2,TLSv1.3"
        )
    if older:
        warn_once("option %s: versions before TLS 1.2 are not supported and are left out", name)
    return enabled or set(_VERSIONS.values())


def _highest(options: RawOptions, names: type[TlsOptions]) -> TLSVersion:
    """The bound of versions that Java's name of an SSLContext is."""
    given = capitals(options[names.protocol] or "TLS")
    if given in _ANY_VERSION:
        return TLSVersion.TLSv1_3
    if given in _VERSIONS:
        return _VERSIONS[given]
    raise bad_value(names.protocol.name, given, "TLSv1.2 or TLSv1.3: older ones are not supported")


def _suites(
    options: RawOptions, names: type[TlsOptions], versions: set[TLSVersion]
) -> tuple[tuple[str, ...], set[TLSVersion]]:
    """OpenSSL's names of the suites of TLS 1.2, and the versions that have a suite."""
    given = [suite for suite in _parse_list(options[names.cipher_suites]) if suite != _NO_SUITE]
    if not given:
        return (), versions
    name = names.cipher_suites.name
    for suite in given:
        if suite not in TLS_1_2_SUITES and suite not in TLS_1_3_SUITES:
            known = (*TLS_1_2_SUITES, *TLS_1_3_SUITES)
            raise OptionError(
                f"option {name}: {quote(suite)} is no cipher suite of TLS 1.2 by its name in Java"
                f"{hint(suite, known) or '; leave it out'}"
            )
    of_1_2 = tuple(TLS_1_2_SUITES[suite] for suite in given if suite in TLS_1_2_SUITES)
    of_1_3 = [suite for suite in given if suite in TLS_1_3_SUITES]
    if TLSVersion.TLSv1_3 in versions and 0 < len(set(of_1_3)) < len(TLS_1_3_SUITES):
        raise OptionError(
            f"option {name}: Python cannot choose suites of TLS 1.3, all of them are offered: leave "
            f"{', '.join(of_1_3)} out, which leaves TLS 1.2 only, or name {', '.join(TLS_1_3_SUITES)}"
        )
    has_suite = {TLSVersion.TLSv1_2: bool(of_1_2), TLSVersion.TLSv1_3: bool(of_1_3)}
    return of_1_2, {version for version in versions if has_suite[version]}


#: Longest store, bytes. All public authorities together take 0.3 MB.
STORE_BYTES_MAX: Final = 4 << 20
_KINDS: Final = (JKS, PKCS12, PEM)
#: Other kinds, of Java and of Bouncy Castle.
_UNSUPPORTED: Final = ("JCEKS", "BCFKS", "BKS", "UBER")


class _Contents(NamedTuple):
    """PEM of what a store contains, and the kind of the store."""

    text: str
    kind: str


def tls_of(options: RawOptions, names: type[TlsOptions] = BrokerTls, of: TlsNames = OF_BROKERS) -> Tls:
    """Encryption of connections. Raises ``OptionError`` (fatal), which shows no secret."""
    identity = _identity(options, names)
    tls = Tls(
        trust=load_trusted(options, names),
        identity=identity and identity.text,
        # The key of another store is not encrypted any more.
        key_password=options[names.key_password] if identity is None or identity.kind == PEM else None,
        checks_host_name=options[names.checks_host_name],
        names=of,
        limits=limits_of(options, names),
    )
    check(tls, options, names)
    return tls


def check(tls: Tls, options: RawOptions, names: type[TlsOptions] = BrokerTls) -> None:
    """Let OpenSSL read the texts, so that bad ones fail here, and not in the tasks. Raises ``OptionError``
    (fatal)."""
    try:
        context(tls)
    except OptionError as error:
        files = [item for item in (names.trust_location, names.key_location) if options.given(item)]
        read = ", ".join(f"{item.name} is {quote(options[item])}" for item in files)
        raise OptionError(f"{error}{f' ({read})' if read else ''}") from error


def load_trusted(options: RawOptions, names: type[TlsOptions] = BrokerTls) -> str | None:
    """PEM of the authorities to trust; None for the system's. Raises ``OptionError`` (fatal)."""
    result = _contents(
        options,
        (names.trust_type, names.trust_location, names.trust_password),
        (names.trust_certificates,),
        "to trust the system's authorities",
        trust_of,
    )
    return result and result.text


def _identity(options: RawOptions, names: type[TlsOptions]) -> _Contents | None:
    return _contents(
        options,
        (names.key_type, names.key_location, names.key_store_password),
        (names.key_text, names.key_certificates),
        "where the server asks for no certificate of the client",
        identity_of,
        names.key_password,
    )


def _contents(
    options: RawOptions,
    store: tuple[Option[str | None], Option[str | None], Option[str | None]],
    texts: tuple[Option[str | None], ...],
    without: str,
    read: Callable[[Store], str],
    key_password: Option[str | None] | None = None,
) -> _Contents | None:
    """The contents of a store, from its file or from the options that hold its parts; None without one.

    ``store`` are the options of its kind, its location and its password, ``texts`` those of its parts as PEM;
    ``without`` is the effect of leaving it out.
    """
    kind, store_path, password = store
    said, path, given = _parse_kind(options, kind), options[store_path], options.given(*texts)
    if path is not None:
        if given:
            raise OptionError(f"options {store_path} and {given[0]} are both set; set one of them")
        data = _bytes_of(store_path.name, path, without)
        key = ("", None) if key_password is None else (key_password.name, options[key_password])
        try:
            result = _Contents(
                read(Store(data, options[password], key[1], password.name, key[0])), kind_of(data)
            )
        except StoreError as error:
            raise OptionError(f"option {store_path}: {quote(path)}: {error}") from error
        if result.kind == PEM and options.given(password):
            warn_once("option %s has no effect, because the store is PEM", password.name)
    else:
        if options.given(password):
            raise OptionError(
                f"option {password} is the password of a store, and {store_path} is not set; set it, too"
            )
        if not given:
            return None
        result = _Contents(_join_pem(options, texts), PEM)
    if said not in (None, result.kind):
        read_as = "option %s: the store is %s, not %s, and is read as that"
        warn_once(read_as, kind.name, result.kind, said)
    return result


def _parse_kind(options: RawOptions, option: Option[str | None]) -> str | None:
    kind = options[option] or None
    if kind in _UNSUPPORTED:
        raise OptionError(f"option {option}: {unsupported(kind)}")
    if kind not in (None, *_KINDS):
        raise bad_value(option.name, kind, " or ".join(_KINDS))
    return kind


def _bytes_of(name: str, path: str, without: str) -> bytes:
    if not path.strip():
        raise OptionError(
            f"option {name}: the path is empty; give that of a store that is on the driver, or leave the "
            f"option out {without}"
        )
    where = f"option {name}: {quote(path)}"
    advice = "give the path of a store that is on the driver"
    return file_bytes(where, path, STORE_BYTES_MAX, advice, "is it a store?")


def _join_pem(options: RawOptions, texts: tuple[Option[str | None], ...]) -> str:
    given = options.given(*texts)
    missing = [item.name for item in texts if item.name not in given]
    if missing:
        raise OptionError(f"option {given[0]} is set without {' and '.join(missing)}; set them together")
    return "".join(_normalize_pem(item.name, options[item] or "") for item in texts)


def _normalize_pem(name: str, text: str) -> str:
    try:
        return normalize_pem(text)
    except StoreError as error:
        raise OptionError(f"option {name}: {error} (its value is not shown)") from error
