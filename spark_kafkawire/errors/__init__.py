"""Everything that can go wrong, and what the caller may do about it.

==========================  ===========  ==========================================================
class                       action       raised when
==========================  ===========  ==========================================================
KafkaWireError              FAIL         (base of all; never raised itself)
  OptionError               FIX_OPTION   an option, a schema or an argument is wrong or missing
  RowError                  FIX_DATA     a row cannot be written as it is (null value, oversize, …)
  LimitError                FIX_OPTION   a named limit (message, frame, decompressed bytes) is hit
  DiscoveryError            FAIL         ZooKeeper or the broker list do not tell who holds a topic
  UnknownTopicError         FIX_OPTION   discovery works and no broker holds the topic
    BrokersMissingError     BACK_OFF     brokers that ought to be there are not registered (yet)
  TransportError            RECONNECT    a connection could not be made, broke, or went silent
    ConnectFailed           RECONNECT    … before anything was sent
    ConnectionLost          RECONNECT    … the peer closed, or the network broke
    RequestTimedOut         RECONNECT    … a deadline passed
  AuthenticationError       FIX_OPTION   certificates or credentials are refused, by us or by the broker
  ProtocolError             FAIL         the peer's bytes are not the protocol; the connection is dead
  UnsupportedVersionError   FAIL         no version of a request is common, or can carry what is asked
  BrokerError               by code      the broker answered with an error code
  CorruptDataError          FAIL         record bytes fail a check (CRC, magic, length, compression)
  DataLossError             DATA_LOSS    offsets that were asked for no longer exist
  DeliveryError             FAIL         written rows are not proven to be in the log
==========================  ===========  ==========================================================

A message is one line that names what happened, where, and what to do. Spark drops the cause of
``raise X from e``, so the cause is part of the message. No message holds a secret or a payload.

Foreign text goes into a message through one of three: ``shown`` (a name or a value), ``quoted`` (the same
where its ends must be seen) and ``said`` (what a peer tells in prose). What forgets that is caught at the
last moment, in errors and in the log of this package: a message is one printable line that ends.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .log import LOG, log_of
from .text import MESSAGE_SIZE_MAX, SHOWN_SIZE_MAX, lookalikes, one_line, quoted, said, shown

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "LOG",
    "MESSAGE_SIZE_MAX",
    "SHOWN_SIZE_MAX",
    "Action",
    "AuthenticationError",
    "BrokerError",
    "BrokersMissingError",
    "ConnectFailed",
    "ConnectionLost",
    "CorruptDataError",
    "DataLossError",
    "DeliveryError",
    "DiscoveryError",
    "KafkaWireError",
    "LimitError",
    "OptionError",
    "ProtocolError",
    "RequestTimedOut",
    "RowError",
    "TransportError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "log_of",
    "lookalikes",
    "one_line",
    "quoted",
    "said",
    "shown",
]


class Action(enum.Enum):
    """What the code (or the person) that meets an error may do next."""

    FIX_OPTION = "change an option, a schema or an argument"
    FIX_DATA = "change the rows"
    RETRY = "send the same request again"
    BACK_OFF = "wait, then send the same request again"
    REFRESH = "learn the brokers anew, then send the request again"
    RECONNECT = "open a new connection, then send the request again"
    DATA_LOSS = "go on with what is left, or fail: failOnDataLoss decides"
    FAIL = "give up"


class KafkaWireError(Exception):
    """Base of every error of this package. Picklable: its arguments are the message alone."""

    action: Action = Action.FAIL
    #: Whether one who tried again has given up with it: whoever called that need not count tries of its own.
    exhausted: bool = False

    def __init__(self, message: str = "") -> None:
        # The last line of defence: whatever a message is made of, it is one line.
        super().__init__(one_line(message))

    def located(self, place: str) -> Self:
        """A copy of this error whose message starts with ``place``."""
        return self._retold(f"{place}: {self}")

    def advised(self, advice: str) -> Self:
        """A copy of this error whose message ends with ``advice``: what its reader may do, or expect."""
        return self._retold(f"{self}; {advice}")

    def _retold(self, message: str) -> Self:
        copy = type(self)(message)
        copy.__dict__.update(self.__dict__)
        return copy

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self.action in (Action.RETRY, Action.BACK_OFF, Action.REFRESH, Action.RECONNECT)


class OptionError(KafkaWireError, ValueError):
    """An option, a schema or an argument is wrong, missing, or contradicts another. Fatal."""

    action = Action.FIX_OPTION


class RowError(KafkaWireError, ValueError):
    """A row that cannot be written as it is. Fatal; nothing of its request was sent."""

    action = Action.FIX_DATA


class LimitError(KafkaWireError):
    """A named limit was reached; the message holds both numbers and the option. Fatal."""

    action = Action.FIX_OPTION


class DiscoveryError(KafkaWireError):
    """The cluster's brokers or topics cannot be learned. Fatal after kazoo's own retries."""


class UnknownTopicError(DiscoveryError):
    """No broker holds the topic that was asked for. Fatal."""

    action = Action.FIX_OPTION


class BrokersMissingError(DiscoveryError):
    """Brokers that ought to be there are not registered: they restart, lost their session, or are gone.
    Retriable."""

    action = Action.BACK_OFF


class TransportError(KafkaWireError):
    """A connection failed. Retriable on a new connection where the request may be repeated."""

    action = Action.RECONNECT


class ConnectFailed(TransportError):
    """No connection could be made; nothing was sent."""


class ConnectionLost(TransportError):
    """The peer closed the connection, or the network broke it."""


class RequestTimedOut(TransportError):
    """A deadline passed while bytes were awaited."""


class AuthenticationError(KafkaWireError):
    """Certificates or credentials are refused: the broker's by us, or ours by the broker. Fatal:
    trying again locks accounts."""

    action = Action.FIX_OPTION


class ProtocolError(KafkaWireError):
    """The peer's bytes are not the protocol. The connection must not be used again. Fatal."""


class UnsupportedVersionError(KafkaWireError):
    """The broker knows no version of a request that this client knows, or none that can carry
    what is asked. Fatal; nothing was sent."""


class BrokerError(KafkaWireError):
    """The broker answered with an error code; ``action`` comes from the code table."""

    def __init__(self, message: str, code: int = -1, action: Action = Action.FAIL) -> None:
        super().__init__(message)
        self.code = code
        self.action = action


class CorruptDataError(KafkaWireError):
    """Record bytes fail a check. Fatal.

    ``offset`` is the log offset of the outermost message that holds the damage, or None where
    the bytes have no place in a log.
    """

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class DataLossError(KafkaWireError):
    """Offsets that were asked for no longer exist. Fatal unless ``failOnDataLoss`` is false."""

    action = Action.DATA_LOSS


class DeliveryError(KafkaWireError):
    """Rows that were sent are not proven to be in the log. Fatal; whether rows are doubled when they are
    sent again depends on who sends them, and is told by them."""
