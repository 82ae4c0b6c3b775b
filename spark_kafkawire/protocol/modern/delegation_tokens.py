"""CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (Kafka 2.0 and later): credentials
that brokers make for a client that is logged in (KIP-48).

A token is an id and an HMAC. With the two a client logs in by SCRAM, as the owner of the token. Such a
client cannot create, renew or expire tokens.

Versions of CreateDelegationToken::

    0       not spoken: Kafka 1.1 alone has no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
    3       tokens for another owner (KIP-373)

Versions of RenewDelegationToken::

    0       not spoken: Kafka 1.1 alone has no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)

Versions of ExpireDelegationToken::

    0       not spoken: Kafka 1.1 alone has no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..primitives import BYTES, INT16, INT32, INT64, Array, Buffer, String
from ..responses import Faults, below
from ..schema import Struct, wire
from . import declare
from .limits import small_response_bytes_max

#: ``max_lifetime_ms`` and ``renew_period_ms`` that leave the time to the brokers.
BROKER_TIME: Final = -1
#: ``expiry_time_period_ms`` that ends a token at once.
AT_ONCE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableRenewer:
    """A user who may renew a token besides its owner."""

    principal_type: str = wire(String())
    principal_name: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenRequest:
    """Create a token, by default for the user who asks."""

    owner_principal_type: str | None = wire(String(), since=3, nullable_since=3, default=None)
    owner_principal_name: str | None = wire(String(), since=3, nullable_since=3, default=None)
    renewers: tuple[CreatableRenewer, ...] = wire(Array(Struct(CreatableRenewer)), default=())
    max_lifetime_ms: int = wire(INT64, default=BROKER_TIME)
    """Time after which the token cannot be renewed, ms; -1 for that of the brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    """The token, and its times by the clock of the brokers, ms since 1970."""

    error_code: int = wire(INT16)
    principal_type: str = wire(String())
    principal_name: str = wire(String())
    token_requester_principal_type: str = wire(String(), since=3, default="")
    token_requester_principal_name: str = wire(String(), since=3, default="")
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    """Time at which the token expires unless it is renewed."""
    max_timestamp_ms: int = wire(INT64)
    """Time after which the token cannot be renewed."""
    token_id: str = wire(String())
    """Id of the token: the user name of its logins."""
    hmac: Buffer = wire(BYTES, shown=False)
    """HMAC of the token: in base 64, the password of its logins."""
    throttle_time_ms: int = wire(INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenRequest:
    """Let a token expire later."""

    hmac: Buffer = wire(BYTES, shown=False)
    renew_period_ms: int = wire(INT64, default=BROKER_TIME)
    """Time from now on, ms; -1 for that of the brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenResponse:
    """The time of a token that was renewed."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenRequest:
    """Let a token expire sooner."""

    hmac: Buffer = wire(BYTES, shown=False)
    expiry_time_period_ms: int = wire(INT64, default=AT_ONCE)
    """Time from now on, ms; below 0 for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    """The time of a token that expires."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)


def _faults_of_creation(
    _request: CreateDelegationTokenRequest, response: CreateDelegationTokenResponse, _version: int
) -> Faults:
    if response.error_code:
        return
    if not response.token_id or not response.hmac:
        yield "it contains a token without an id or an HMAC"
    yield from below(0, "issue timestamp", response.issue_timestamp_ms)
    yield from below(response.issue_timestamp_ms, "expiry timestamp", response.expiry_timestamp_ms)
    yield from below(response.expiry_timestamp_ms, "max timestamp", response.max_timestamp_ms)


def _faults_of_time(
    _request: object, response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse, _version: int
) -> Faults:
    if not response.error_code:
        yield from below(0, "expiry timestamp", response.expiry_timestamp_ms)


CREATE_DELEGATION_TOKEN: Final = declare(
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, small_response_bytes_max, _faults_of_creation
)

RENEW_DELEGATION_TOKEN: Final = declare(
    RenewDelegationTokenRequest, RenewDelegationTokenResponse, small_response_bytes_max, _faults_of_time
)

EXPIRE_DELEGATION_TOKEN: Final = declare(
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, small_response_bytes_max, _faults_of_time
)
