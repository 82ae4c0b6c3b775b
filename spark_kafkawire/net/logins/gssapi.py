"""GSSAPI: Kerberos. Both sides prove who they are by tickets of a KDC, which the client asks first.

::

    client  AP-REQ: a ticket of kafka/<broker>
    broker  AP-REP
    client  (empty)
    broker  01 00 00 00, wrapped: the security layers that it has; the first bit is "none"
    client  01 00 00 00, wrapped: none

Kafka has no security layer of SASL: TLS encrypts.

Source: RFC 4752, RFC 4121.
"""

from __future__ import annotations

from typing import Final

from spark_kafkawire.errors import AuthenticationError, counted

from ..transport import Deadline
from .kerberos.failures import error_of
from .kerberos.library import Context, GssapiError
from .kerberos.tickets import KerberosLogin, first_token
from .mechanism import Mechanism, Tokens

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
        answer = yield _step(context, answer)
        if context.is_complete:
            break
    else:
        raise AuthenticationError(
            f"SASL GSSAPI: the broker does not end after {counted(ROUND_COUNT_MAX, 'token')}; see its log"
        )
    yield _choice(context, answer)


def _step(context: Context, answer: bytes) -> bytes:
    try:
        return context.step(answer)
    except GssapiError as failure:
        raise error_of(failure, _unproven(answer)) from None


def _choice(context: Context, answer: bytes) -> bytes:
    """The client's choice of a security layer, after the broker's offer."""
    try:
        offer, choice = context.unwrap(answer), context.wrap(_CHOICE)
    except GssapiError as failure:
        raise error_of(failure, _unproven(answer)) from None
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
