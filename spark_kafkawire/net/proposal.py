"""Connections in the New Wire Format Proposal of 2012, to 0.7 brokers that may not support it.

A broker of 0.7 closes the connection on a request that it does not know, as does a broker that is being
stopped. So each connection begins with an empty fetch. If the broker closes, a second connection sends a
request of 0.7 and then the same fetch: a broker that answers the first and closes on the second is alive and
does not support the proposal. That is a fatal error; everything else may be retried.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
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


def connect_in_proposal(
    connect: Callable[[ConnectionSettings], Channel], settings: ConnectionSettings, deadline: Deadline
) -> Channel:
    """A channel whose broker has answered in the format of the proposal.

    Raises ``OptionError`` (fatal) if it supports only 0.7, the errors of ``connect``, ``TransportError``
    (retriable), ``ProtocolError`` (fatal).
    """
    channel = connect(settings)
    try:
        channel.ask(FETCH_OF_NOTHING, deadline)
    except ConnectionLost as error:
        channel.close()
        if _speaks_07_alone(connect, settings, deadline):
            raise OptionError(
                "option wireFormat: the broker supports Kafka 0.7 and closes on requests of the proposal; "
                "remove the option, or start a broker that supports it (wire.format=0.7,proposal)"
            ) from error
        raise error.advise("does the broker support the proposal (wireFormat)?") from error
    except BaseException:
        channel.close()
        raise
    return channel


def _speaks_07_alone(
    connect: Callable[[ConnectionSettings], Channel], settings: ConnectionSettings, deadline: Deadline
) -> bool:
    """True if the broker answers a request of 0.7 and then closes on one of the proposal."""
    try:
        with closing(connect(replace(settings, wire_format=None))) as channel:
            channel.ask(_MULTIFETCH_OF_NOTHING, deadline)
            channel.connection = Connection(proposal.DIALECT, settings.client_id)
            try:
                channel.ask(FETCH_OF_NOTHING, deadline)
            except ConnectionLost:
                return True
    except KafkaWireError:
        pass
    return False
