"""Certificates and keys of TLS, from the options of one kind of peer.

Stores are read here, once, so that they need to be on the driver only. What they contain travels to the
executors as PEM with the settings, and is in no error, repr or log.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

from spark_kafkawire.regular_files import open_regular

from ..errors import LOG, OptionError, quoted
from ..net.stores import JKS, PEM, PKCS12, Store, StoreError, identity_of, kind_of, trust_of, unsupported
from ..net.stores.pem import normalized
from ..net.tls import OF_BROKERS, Tls, TlsNames, context
from .option import Option, bad_value
from .raw import RawOptions
from .security import TLS_OPTIONS, TlsOptions
from .tls_limits import limits_of

#: Longest store, bytes. All public authorities together take 0.3 MB.
STORE_BYTES_MAX: Final = 4 << 20
_KINDS: Final = (JKS, PKCS12, PEM)
#: Other kinds, of Java and of Bouncy Castle.
_UNSUPPORTED: Final = ("JCEKS", "BCFKS", "BKS", "UBER")


class _Contents(NamedTuple):
    """PEM of what a store contains, and the kind of the store."""

    text: str
    kind: str


class _StoreOptions(NamedTuple):
    """The options of one store: ``texts`` are its parts as PEM, ``without`` the effect of leaving it out."""

    kind: Option[str | None]
    location: Option[str | None]
    password: Option[str | None]
    texts: tuple[Option[str | None], ...]
    without: str


def tls_of(options: RawOptions, names: TlsOptions = TLS_OPTIONS, of: TlsNames = OF_BROKERS) -> Tls:
    """Encryption of connections. Raises ``OptionError`` (fatal), which shows no secret."""
    identity = _identity(options, names)
    tls = Tls(
        trust=trusted(options, names),
        identity=identity and identity.text,
        # The key of another store is not encrypted any more.
        key_password=options[names.key_password] if identity is None or identity.kind == PEM else None,
        checks_host_name=options[names.checks_host_name],
        names=of,
        limits=limits_of(options, names),
    )
    check(tls, options, names)
    return tls


def check(tls: Tls, options: RawOptions, names: TlsOptions = TLS_OPTIONS) -> None:
    """Let OpenSSL read the texts, so that bad ones fail here, and not in the tasks. Raises ``OptionError``
    (fatal)."""
    try:
        context(tls)
    except OptionError as error:
        files = [each for each in (names.trust_location, names.key_location) if options.given(each)]
        read = ", ".join(f"{each.name} is {quoted(options[each])}" for each in files)
        raise OptionError(f"{error}{f' ({read})' if read else ''}") from error


def trusted(options: RawOptions, names: TlsOptions = TLS_OPTIONS) -> str | None:
    """PEM of the authorities to trust; None for the system's. Raises ``OptionError`` (fatal)."""
    of_store = _StoreOptions(
        names.trust_type,
        names.trust_location,
        names.trust_password,
        (names.trust_certificates,),
        "to trust the system's authorities",
    )
    found = _contents(options, of_store, None, trust_of)
    return found and found.text


def _identity(options: RawOptions, names: TlsOptions) -> _Contents | None:
    """The client's key and certificates."""
    of_store = _StoreOptions(
        names.key_type,
        names.key_location,
        names.key_store_password,
        (names.key_text, names.key_certificates),
        "where the server asks for no certificate of the client",
    )
    return _contents(options, of_store, names.key_password, identity_of)


def _contents(
    options: RawOptions,
    of_store: _StoreOptions,
    key_password: Option[str | None] | None,
    read: Callable[[Store], str],
) -> _Contents | None:
    """The contents of a store, from its file or from the options that hold its parts; None without one."""
    said = _said_kind(options, of_store.kind)
    location = options[of_store.location]
    given = options.given(*of_store.texts)
    if location is not None:
        if given:
            raise OptionError(
                f"options {of_store.location.name} and {given[0]} are both set; set one of them"
            )
        found = _read(options, of_store, location, key_password, read)
    else:
        if options.given(of_store.password):
            raise OptionError(
                f"option {of_store.password.name} is the password of a store, and {of_store.location.name} "
                "is not set; set it, too"
            )
        if not given:
            return None
        found = _Contents(_joined(options, of_store.texts), PEM)
    if said not in (None, found.kind):
        _warn_of_kind(of_store.kind.name, said, found.kind)
    return found


def _said_kind(options: RawOptions, option: Option[str | None]) -> str | None:
    kind = options[option] or None
    if kind in _UNSUPPORTED:
        raise OptionError(f"option {option.name}: {unsupported(kind)}")
    if kind not in (None, *_KINDS):
        raise bad_value(option.name, kind, " or ".join(_KINDS))
    return kind


def _read(
    options: RawOptions,
    of_store: _StoreOptions,
    location: str,
    key_password: Option[str | None] | None,
    read: Callable[[Store], str],
) -> _Contents:
    name, password = of_store.location.name, of_store.password
    data = _bytes_of(name, location, of_store.without)
    store = Store(
        data,
        options[password],
        None if key_password is None else options[key_password],
        password.name,
        "" if key_password is None else key_password.name,
    )
    try:
        found = _Contents(read(store), kind_of(data))
    except StoreError as error:
        raise OptionError(f"option {name}: {quoted(location)}: {error}") from error
    if found.kind == PEM and options.given(password):
        _warn_of_password(password.name)
    return found


def _bytes_of(name: str, location: str, without: str) -> bytes:
    if not location.strip():
        raise OptionError(
            f"option {name}: the path is empty; give that of a store that is on the driver, or leave the "
            f"option out {without}"
        )
    try:
        with open_regular(location) as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise OptionError(
            f"option {name}: {quoted(location)} cannot be read on the driver: {reason}; give the path of a "
            "store that is on the driver"
        ) from error
    if len(data) > STORE_BYTES_MAX:
        raise OptionError(
            f"option {name}: {quoted(location)} is longer than {STORE_BYTES_MAX} bytes; is it a store?"
        )
    return data


def _joined(options: RawOptions, texts: tuple[Option[str | None], ...]) -> str:
    """The PEM of a store from all of its parts."""
    given = options.given(*texts)
    missing = [each.name for each in texts if each.name not in given]
    if missing:
        raise OptionError(f"option {given[0]} is set without {' and '.join(missing)}; set them together")
    return "".join(_normalized(each.name, options[each] or "") for each in texts)


def _normalized(name: str, text: str) -> str:
    try:
        return normalized(text)
    except StoreError as error:
        raise OptionError(f"option {name}: {error} (its value is not shown)") from error


@functools.cache
def _warn_of_kind(name: str, said: str, found: str) -> None:
    LOG.warning("option %s: the store is %s, not %s, and is read as that", name, found, said)


@functools.cache
def _warn_of_password(name: str) -> None:
    LOG.warning("option %s has no effect, because the store is PEM", name)
