"""GSSAPI: Kerberos. Both sides prove who they are by tickets of a KDC, which the client asks first.

::

    client  AP-REQ: a ticket of kafka/<broker>
    broker  AP-REP
    client  (empty)
    broker  01 00 00 00, wrapped: the security layers that it has; the first bit is "none"
    client  01 00 00 00, wrapped: none

Kafka has no security layer of SASL: TLS encrypts.

Source: RFC 4752, RFC 4121.

A ticket of a key tab stays in the memory of this process, and a new one takes its place after
``USED_PART`` of its lifetime. A ticket cache is read for each login: another program, such as kinit, renews
it.

A key tab, whose keys are for the library alone::

    05 02 | size | component count | realm | components | name type | timestamp | version | key | … | size | …

Integers are big-endian. An entry with a negative size is a hole.

Source: https://web.mit.edu/kerberos/krb5-latest/doc/formats/keytab_file_format.html

Source of the failures: RFC 4120, and MIT's krb5_err.et and k5e1_err.et.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    TransportError,
    counted,
    list_some,
    printable,
    quote,
)
from spark_kafkawire.kept import Kept
from spark_kafkawire.regular_files import Unreadable, read_regular
from spark_kafkawire.secrecy import Credentials

from ..transport import Deadline
from . import Mechanism, Tokens
from .gssapi_library import Context, GssapiError, Handle, Library, load
from .tokens.token import within

#: The number of the first error of krb5_err.et: those of RFC 4120 follow it by their codes.
_BASE: Final = -1765328384
_EXPIRED: Final = _BASE + 32
_CLOCKS: Final = (
    "the clocks of this machine and of the KDC differ by more than Kerberos allows, 5 minutes by default: "
    "set them by NTP"
)
_KINIT: Final = (
    "run kinit as the user of the driver and of the executors, and again before the ticket expires, or set "
    "useKeyTab=true with keyTab and principal in kafka.sasl.jaas.config"
)
#: What to do where no KDC answers.
NETWORK: Final = "check kdc of the realm in krb5.conf (KRB5_CONFIG), and that this machine can reach it"
#: What to do, by the number of the error.
_FATAL: Final[Mapping[int, str]] = {
    _BASE + 6: "the KDC has no such principal: check principal of kafka.sasl.jaas.config",
    _BASE
    + 7: "the KDC has no such service: check kafka.sasl.kerberos.service.name, and that brokers have the "
    "host names of their principals, not addresses",
    _EXPIRED: f"the ticket has expired: {_KINIT}",
    # Not yet valid, clock skew, clock skew in a reply.
    **dict.fromkeys((_BASE + 33, _BASE + 37, _BASE + 148), _CLOCKS),
    _BASE + 224: "set default_realm in krb5.conf (KRB5_CONFIG), or name the realm in the principal",
    # Pre-authentication, integrity.
    **dict.fromkeys(
        (_BASE + 24, _BASE + 31),
        "the KDC has another key of the principal than the key tab, as after a change of its password: "
        "export the key tab again",
    ),
    # No file, no ticket in it, none of this principal.
    **dict.fromkeys((_BASE + 195, _BASE + 141, 39756032), f"the cache has no ticket of this user: {_KINIT}"),
}
_RETRIABLE: Final[Mapping[int, str]] = {
    _BASE + 156: f"no KDC answers: {NETWORK}",
    # No such realm, its host cannot be resolved.
    **dict.fromkeys((_BASE + 154, _BASE + 220), f"no KDC is found: {NETWORK}"),
}


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Raise a failure of the library as an error: fatal, but for a KDC that does not answer. ``what`` says
    what failed."""
    try:
        yield
    except GssapiError as failure:
        code = _EXPIRED if failure.has_expired else failure.code
        advice = _RETRIABLE.get(code) or _FATAL.get(code)
        reason = printable(failure) if advice is None else f"{advice} ({printable(failure)})"
        kind = ConnectFailed if code in _RETRIABLE else AuthenticationError
        raise kind(f"SASL GSSAPI: {what}: {reason}") from None


#: Longest key tab, bytes: some 10,000 keys.
FILE_BYTES_MAX: Final = 1 << 20
_VERSION: Final = b"\x05\x02"
_WHERE: Final = (
    "keyTab of kafka.sasl.jaas.config is a path on the driver and on each executor, or the name of a file "
    "that spark-submit --files sends"
)
#: The beginning of the name of the driver's folder of files.
_SPARKS_FOLDER: Final = "userFiles-"
#: Principals that an error lists.
_LISTED_COUNT: Final = 5


def find_key_tab(name: str) -> str:
    """The path of a key tab: of a name that is not absolute, in the working directory or in the folder of
    ``--files``."""
    path = name.removeprefix("FILE:")
    if os.path.isabs(path):
        return path
    places = (Path(folder, path) for folder in (Path(), *_folders_of_spark()))
    return str(next((location for location in places if location.is_file()), Path(path)))


def _folders_of_spark() -> Iterator[Path]:
    """Folders in which ``--files`` may be. Spark puts them into the path of Python's modules; for streams and
    for sessions of Spark Connect it is a folder below, which need not exist."""
    for folder in map(Path, sys.path):
        yield folder
        if folder.parent.name.startswith(_SPARKS_FOLDER):
            yield folder.parent


def check_key_tab(path: str, principal: str) -> None:
    """Raise ``AuthenticationError`` (fatal) if the key tab has no key of the principal: the library does not
    say so."""
    try:
        data = read_regular(path, FILE_BYTES_MAX, "where the client connects", _WHERE, "is it a key tab?")
    except Unreadable as error:
        raise _describe_failure(path, str(error)) from error
    if not data.startswith(_VERSION):
        raise _describe_failure(path, "is not a key tab of version 2; make it with kadmin ktadd or ktutil")
    try:
        known = list(dict.fromkeys(_principals(data)))
    except (struct.error, ValueError):
        raise _describe_failure(
            path, "is damaged: an entry does not end where it should; copy it again from where it was made"
        ) from None
    # A realm is after an @ that no backslash escapes.
    names_realm = re.fullmatch(r"(?:[^@\\]|\\.)*@.*", principal, re.DOTALL)
    names = known if names_realm else [name.rpartition("@")[0] for name in known]
    if principal not in names:
        listed = list_some(known, _LISTED_COUNT, printable) or "none"
        raise _describe_failure(
            path,
            f"has no key of the principal {quote(principal)} of kafka.sasl.jaas.config; it has keys of "
            f"{listed}; name one of these",
        )


def _principals(data: bytes) -> Iterator[str]:
    pos = len(_VERSION)
    while pos < len(data):
        (size,) = struct.unpack_from(">i", data, pos)
        pos += 4
        if size == 0:  # the library ends here, too
            return
        if size > 0:
            if pos + size > len(data):
                raise ValueError
            yield _principal(data[pos : pos + size])
        pos += abs(size)


def _principal(entry: bytes) -> str:
    (count,) = struct.unpack_from(">H", entry, 0)
    pos, parts = 2, []
    for _ in range(count + 1):
        (size,) = struct.unpack_from(">H", entry, pos)
        if pos + 2 + size > len(entry):
            raise ValueError
        part = entry[pos + 2 : pos + 2 + size].decode("utf-8", "replace")
        parts.append(re.sub(r"[/@\\]", r"\\\g<0>", part))
        pos += 2 + size
    realm, *components = parts
    return f"{'/'.join(components)}@{realm}"


def _describe_failure(path: str, problem: str) -> AuthenticationError:
    return AuthenticationError(f"SASL GSSAPI: the key tab {quote(path)} {problem}")


T = TypeVar("T")

#: The part of a ticket's lifetime after which a new one is requested.
USED_PART: Final = 0.8


@dataclass(frozen=True, slots=True)
class KerberosLogin(Credentials):
    """The name of the brokers' service, and a principal with its key tab, or a ticket cache.

    Without ``key_tab``, ``ticket_cache`` names the cache; None is that of the environment. Plain data without
    secrets: it travels to the executors, which have files of their own.
    """

    service: str
    principal: str | None = None
    key_tab: str | None = None
    ticket_cache: str | None = None


#: Credentials of key tabs.
_CREDENTIALS: Final = Kept[KerberosLogin, Handle](counts_sleep=True)


def first_token(
    login: KerberosLogin, host: str, deadline: Deadline, used_part: float = USED_PART
) -> tuple[Context, bytes]:
    """A context to authenticate to the service of a host, and the first token for it.

    Raises ``AuthenticationError`` (fatal), ``OptionError`` (fatal) without the library, ``TransportError``
    (retriable) if no KDC answers in time.
    """
    library = load()
    credential = _current(library, login, deadline, used_part)

    def started() -> tuple[Context, bytes]:
        with _failing(f"no ticket of {printable(f'{login.service}/{host}')}"):
            context = library.context(credential, login.service, host)
            return context, context.step(b"")

    return _within(deadline, started)


def _current(library: Library, login: KerberosLogin, deadline: Deadline, used_part: float) -> Handle:
    """A credential with a valid ticket."""
    if login.key_tab is None:
        return _ask_credential(library, login, deadline)[0]
    if (kept := _CREDENTIALS.get(login)) is not None:
        return kept
    is_first = _CREDENTIALS.last(login) is None
    try:
        # Half of the time is left for the login with the last ticket.
        soon = deadline if is_first else deadline.sooner(deadline.remaining_s() / 2)
        credential, lifetime_s = _ask_credential(library, login, soon)
    except TransportError:
        if (last := _CREDENTIALS.last(login)) is not None:
            return last
        raise
    return _CREDENTIALS.keep(login, credential, used_part * lifetime_s, lifetime_s)


def _ask_credential(library: Library, login: KerberosLogin, deadline: Deadline) -> tuple[Handle, float]:
    """A credential, and the lifetime of its ticket, seconds."""
    if login.key_tab is None:
        cache = f" {quote(login.ticket_cache)}" if login.ticket_cache else ""
        location = f"the ticket cache{cache}, which klist shows, gives no ticket"
    else:
        path = find_key_tab(login.key_tab)
        check_key_tab(path, login.principal or "")
        location = f"no ticket of {quote(login.principal)} by the key tab {quote(path)}"

    def asked() -> tuple[Handle, float]:
        with _failing(location):
            if login.key_tab is None:
                credential = library.from_ticket_cache(login.principal, login.ticket_cache)
            else:
                credential = library.from_key_tab(login.principal or "", path)
            return credential, library.lifetime_s(credential)

    return _within(deadline, asked)


def _within(deadline: Deadline, call: Callable[[], T]) -> T:
    """The result of calls of the library that may ask a KDC: they have no deadline of their own."""
    return within(deadline, "SASL GSSAPI: the KDC", call, NETWORK)


#: Most tokens of a broker until both sides are authenticated. Kerberos needs one.
ROUND_COUNT_MAX: Final = 4
_NO_LAYER: Final = 1
#: The layer, and the size of messages that it can receive: 0, as there are none.
_CHOICE: Final = bytes([_NO_LAYER, 0, 0, 0])


def _tokens(login: KerberosLogin, host: str, deadline: Deadline) -> Tokens:
    return exchange(*first_token(login, host, deadline))


def exchange(context: Context, token: bytes) -> Tokens:
    """The tokens of the client, the first of which the context has made already."""
    answer = yield token
    for _ in range(ROUND_COUNT_MAX):
        # The last token is empty, and is sent, too: the layers of the broker are the answer to it.
        with _failing(_unproven(answer)):
            token = context.step(answer)
        answer = yield token
        if context.is_complete:
            break
    else:
        raise AuthenticationError(
            f"SASL GSSAPI: the broker does not end after {counted(ROUND_COUNT_MAX, 'token')}; see its log"
        )
    yield _choice(context, answer)


def _choice(context: Context, answer: bytes) -> bytes:
    """The client's choice of a security layer, after the broker's offer."""
    with _failing(_unproven(answer)):
        offer, choice = context.unwrap(answer), context.wrap(_CHOICE)
    if len(offer) != len(_CHOICE):
        raise AuthenticationError(
            f"SASL GSSAPI: the security layers of the broker are {counted(len(offer), 'byte')}, not 4; see "
            "its log"
        )
    if not offer[0] & _NO_LAYER:
        raise AuthenticationError(
            "SASL GSSAPI: the broker demands a security layer of SASL, which Kafka does not have; use "
            "kafka.security.protocol=SASL_SSL to encrypt"
        )
    return choice


def _unproven(answer: bytes) -> str:
    return (
        "the peer does not prove that it is the broker (check its address, and that it has the key of its "
        f"principal), in an answer of {counted(len(answer), 'byte')}"
    )


GSSAPI: Final = Mechanism("GSSAPI", "Krb5LoginModule", _tokens)
