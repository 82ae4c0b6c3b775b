"""Connections in the proposal's format, to brokers of which nobody knows whether they speak it.

A broker of 0.7 closes on a request that it does not know, as one does that is being stopped. So each new
connection begins with a fetch of nothing. Where that is not answered, another one begins with a question of
0.7 and goes on with the same fetch: a broker that answers the first, and closes on the second, is alive and
does not speak the proposal. That is an error; all else may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ..errors import ConnectionLost, KafkaWireError, OptionError
from ..protocol import proposal, v07
from ..protocol.connection import Connection
from .channel import Channel
from .settings import ConnectionSettings
from .transport import Deadline

FETCH_OF_NOTHING: Final = proposal.FetchRequest(proposal.NO_REPLICA, 0, 0, ())
_MULTIFETCH_OF_NOTHING: Final = v07.MultiFetchRequest(())


def answered_in_proposal(
    connect: Callable[[ConnectionSettings], Channel], settings: ConnectionSettings, deadline: Deadline
) -> Channel:
    """A channel whose broker has answered in the proposal's format.

    Raises ``OptionError`` (fatal) where it speaks 0.7 alone, what ``connect`` raises, ``TransportError``
    (retriable), ``ProtocolError`` (fatal).
    """
    channel = connect(settings)
    try:
        channel.ask(FETCH_OF_NOTHING, deadline)
    except ConnectionLost as error:
        channel.close()
        if _speaks_07_alone(connect, settings, deadline):
            raise OptionError(
                "option wireFormat: the broker speaks Kafka 0.7 and closes on requests of the proposal; "
                "leave out the option, or start a broker that speaks it (wire.format=0.7,proposal)"
            ) from error
        raise error.advised("is it a broker that speaks the proposal (wireFormat)?") from error
    except BaseException:
        channel.close()
        raise
    return channel


def _speaks_07_alone(
    connect: Callable[[ConnectionSettings], Channel], settings: ConnectionSettings, deadline: Deadline
) -> bool:
    """Whether the broker answers 0.7 and then, on the same connection, closes on the proposal."""
    try:
        channel = connect(replace(settings, wire_format=None))
    except KafkaWireError:
        return False
    try:
        channel.ask(_MULTIFETCH_OF_NOTHING, deadline)
        channel.continue_with(Connection(proposal.DIALECT, settings.client_id))
    except KafkaWireError:
        channel.close()
        return False
    try:
        channel.ask(FETCH_OF_NOTHING, deadline)
    except ConnectionLost:
        return True
    except KafkaWireError:
        return False
    finally:
        channel.close()
    return False
