"""Delegation tokens as credentials of SCRAM: the id of a token, and its HMAC in place of a password.

Source: KIP-48; Apache Kafka's ScramSaslClient.java (``tokenauth``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Time after the creation of a token in which some brokers may not know it yet, seconds. They learn of it as
#: of topics.
UNKNOWN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. ``hmac`` is in base 64. ``created_s`` is when this package created it, seconds since 1970;
    None if the user provides it."""

    token_id: str
    hmac: str = field(repr=False)
    created_s: float | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return (self.hmac,)

    @property
    def username(self) -> str:
        """The user name of a login."""
        return self.token_id

    @property
    def password(self) -> str:
        """The password of a login."""
        return self.hmac

    def may_be_unknown(self, now_s: float) -> bool:
        """True if brokers may refuse the token because it is too new. The clock of a task may differ from
        that of the driver."""
        return self.created_s is not None and abs(now_s - self.created_s) < UNKNOWN_S
