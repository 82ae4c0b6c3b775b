"""Tickets of a key tab or of a ticket cache.

A ticket of a key tab stays in the memory of this process, and a new one takes its place after
``USED_PART`` of its lifetime. A ticket cache is read for each login: another program, such as kinit, renews
it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from spark_kafkawire.errors import TransportError, printable, quoted
from spark_kafkawire.net.logins.tokens.bounded import within
from spark_kafkawire.net.transport import Deadline

from .failures import NETWORK, error_of
from .key_tab import check_key_tab, found_key_tab
from .library import Context, GssapiError, Handle, Library, load

T = TypeVar("T")

#: The part of a ticket's lifetime after which a new one is requested.
USED_PART: Final = 0.8


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """The name of the brokers' service, and a principal with its key tab, or a ticket cache.

    Without ``key_tab``, ``ticket_cache`` names the cache; None is that of the environment. Plain data without
    secrets: it travels to the executors, which have files of their own.
    """

    service: str
    principal: str | None = None
    key_tab: str | None = None
    ticket_cache: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """No secrets: names and paths are none."""
        return ()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A credential of a key tab, and when it is renewed and ends. The times are of the clock that tickets go
    by: the monotonic one stops while a machine sleeps."""

    credential: Handle
    renewed_at_s: float
    ends_at_s: float


#: Credentials of this process.
_kept: Final[dict[KerberosLogin, _Kept]] = {}
_lock: Final = threading.Lock()


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
        try:
            context = library.context(credential, login.service, host)
            return context, context.step(b"")
        except GssapiError as failure:
            raise error_of(failure, f"no ticket of {printable(f'{login.service}/{host}')}") from None

    return _within(deadline, started)


def forget_tickets() -> None:
    """Forget all tickets of this process."""
    with _lock:
        _kept.clear()


def _current(library: Library, login: KerberosLogin, deadline: Deadline, used_part: float) -> Handle:
    """A credential with a valid ticket."""
    if login.key_tab is None:
        return _asked(library, login, deadline)[0]
    with _lock:
        kept = _kept.get(login)
    now_s = time.time()
    if kept is not None and now_s < kept.renewed_at_s:
        return kept.credential
    try:
        # Half of the time is left for the login with the last ticket.
        soon = deadline if kept is None else deadline.sooner(deadline.remaining_s() / 2)
        credential, lifetime_s = _asked(library, login, soon)
    except TransportError:
        if kept is not None and time.time() < kept.ends_at_s:
            return kept.credential
        raise
    with _lock:
        _kept[login] = _Kept(credential, now_s + used_part * lifetime_s, now_s + lifetime_s)
    return credential


def _asked(library: Library, login: KerberosLogin, deadline: Deadline) -> tuple[Handle, float]:
    """A credential, and the lifetime of its ticket, seconds."""
    if login.key_tab is None:
        cache = f" {quoted(login.ticket_cache)}" if login.ticket_cache else ""
        place = f"the ticket cache{cache}, which klist shows, gives no ticket"
    else:
        path = found_key_tab(login.key_tab)
        check_key_tab(path, login.principal or "")
        place = f"no ticket of {quoted(login.principal)} by the key tab {quoted(path)}"

    def asked() -> tuple[Handle, float]:
        try:
            if login.key_tab is None:
                credential = library.from_ticket_cache(login.principal, login.ticket_cache)
            else:
                credential = library.from_key_tab(login.principal or "", path)
            return credential, library.lifetime_s(credential)
        except GssapiError as failure:
            raise error_of(failure, place) from None

    return _within(deadline, asked)


def _within(deadline: Deadline, call: Callable[[], T]) -> T:
    """The result of calls of the library that may ask a KDC: they have no deadline of their own."""
    return within(deadline, "SASL GSSAPI: the KDC", call, NETWORK)
