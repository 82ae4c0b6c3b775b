"""Delegation tokens of the driver (Kafka 2.0 and later): it creates them with its own login, renews them, and
hands them to tasks as their login.

    login = login_of_tasks(net)         # the token's id and its HMAC, for SCRAM
    net = net.with_token(login)

A process keeps one token for each cluster and login, and uses it for all its work: brokers keep every token
until it expires. No process of Spark that has the driver's login hears of the end of a batch, so tokens are
left to expire, except those of a streaming read that stops.

Source: KIP-48.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spark_kafkawire.errors import LOG, AuthenticationError, BrokerError, KafkaWireError
from spark_kafkawire.kept import Kept
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.passwords import HASHES, DelegationToken
from spark_kafkawire.net.retry import RetryPolicy, call_with_retries
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.admin import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.secrecy import keep_secret

from .metadata import Metadata

#: The part of a token's life after which a stream renews it. Its next batch has the rest to end.
USED_BY_STREAMS: Final = 0.75
#: The same for batches, which cannot get a renewed token later.
USED_BY_BATCHES: Final = 0.1
#: The mechanisms of logins with a token, the preferred one first.
_MECHANISMS: Final = tuple(sorted(HASHES, reverse=True))
#: Codes of a token that the brokers no longer have.
_GONE: Final = (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_EXPIRED)
_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of this process. Its times are by the clock of the brokers, ms; ``created_s`` is by the
    monotonic clock of this process, and ``life_s`` the time that the brokers gave the token at first."""

    login: Sasl
    hmac: bytes = field(repr=False)
    issued_ms: int
    expires_ms: int
    max_ms: int
    life_s: float
    created_s: float

    def is_fresh(self, used: float) -> bool:
        """True if no more than that part of its life is used."""
        return self._count_left_s(self.expires_ms) > (1 - used) * self.life_s

    def may_be_fresh(self, used: float) -> bool:
        """True if the token would be fresh after a renewal."""
        return self._count_left_s(self.max_ms) > (1 - used) * self.life_s

    def _count_left_s(self, until_ms: int) -> float:
        return (until_ms - self.issued_ms) / _MS - (time.monotonic() - self.created_s)


#: The token of each cluster and login.
_TOKENS: Final = Kept[tuple[tuple[Broker, ...], Security], _Token]()
_lock: Final = threading.Lock()


def login_of_tasks(net: NetOptions, used: float = USED_BY_BATCHES) -> Sasl:
    """The login of tasks: a token of which no more than the part ``used`` of its life is over. It is the one
    of this process, which is renewed if need be, or a new one.

    Raises ``BrokerError`` (fatal) where brokers give no token, ``AuthenticationError`` (fatal) where they
    take none, and ``TransportError`` when the retries are used up.
    """
    key = net.connection.bootstrap_servers, net.connection.security
    with _lock:
        token = _TOKENS.get(key)
        if token is not None and not token.is_fresh(used):
            token = _renew_token(token, net) if token.may_be_fresh(used) else None
        if token is None or not token.is_fresh(used):
            token = _create_token(net)
        _TOKENS.keep(key, token)
        keep_secret(*token.login.credentials.secrets)
        return token.login


def net_of_tasks(net: NetOptions) -> NetOptions:
    """The options of the connections of tasks: with a token as their login if the driver gets tokens. Raises
    as ``login_of_tasks``."""
    return net.with_token(login_of_tasks(net)) if net.delegates else net


def expire_tokens(net: NetOptions) -> None:
    """Expire the token of this process for a cluster and a login, if there is one. Logs an error: the token
    expires later then."""
    key = net.connection.bootstrap_servers, net.connection.security
    with _lock:
        token = _TOKENS.get(key)
        _TOKENS.forget(key.__eq__)
    if token is None:
        return
    try:
        net = replace(net, retry=RetryPolicy(retries=0))
        _check(_metadata(net).ask(ExpireDelegationTokenRequest(hmac=token.hmac)), "ExpireDelegationToken")
    except KafkaWireError as error:
        LOG.warning("the delegation token of tasks is left to expire: %s", error)


def _create_token(net: NetOptions) -> _Token:
    result: set[str] = set()

    def requests_of(client: Client) -> Iterable[object]:
        result.update(client.channel.mechanisms)
        return (CreateDelegationTokenRequest(),)

    def attempt() -> Any:
        [answer] = _metadata(net).ask_in_turn(requests_of)
        return _check(answer.body, "CreateDelegationToken")

    response = call_with_retries(attempt, net.request_retry)
    hmac = bytes(response.hmac)
    token = DelegationToken(response.token_id, base64.b64encode(hmac).decode(), time.time())
    keep_secret(*token.secrets)
    issued_ms, expires_ms = response.issue_timestamp_ms, response.expiry_timestamp_ms
    return _Token(
        Sasl(_mechanism(result), token),
        hmac,
        issued_ms,
        expires_ms,
        response.max_timestamp_ms,
        life_s=(expires_ms - issued_ms) / _MS,
        created_s=time.monotonic(),
    )


def _mechanism(offered: Iterable[str]) -> str:
    result = [name for name in _MECHANISMS if name in offered]
    if not result:
        raise AuthenticationError(
            f"delegationTokens=true: logins with a delegation token need {' or '.join(_MECHANISMS)}, and the "
            "brokers offer neither; add one to their sasl.enabled.mechanisms"
        )
    return result[0]


def _renew_token(token: _Token, net: NetOptions) -> _Token | None:
    """The token with more time; None if the brokers no longer have it."""
    request = RenewDelegationTokenRequest(hmac=token.hmac)
    try:
        response = call_with_retries(
            lambda: _check(_metadata(net).ask(request), "RenewDelegationToken"), net.request_retry
        )
    except BrokerError as error:
        if error.code in _GONE:
            return None
        raise
    return replace(token, expires_ms=response.expiry_timestamp_ms)


def _check(response: Any, api: str) -> Any:
    if response.error_code:
        raise broker_error(response.error_code, api)
    return response


def _metadata(net: NetOptions) -> Metadata:
    return Metadata(net.connection.bootstrap_servers, net)
