"""The identity of an idempotent producer. Source: KIP-98."""

from __future__ import annotations

import logging
from typing import Final

from ....cluster.modern.metadata import Metadata
from ....errors import BrokerError, OptionError, UnsupportedVersionError
from ....net.retry import Attempts
from ....options import WriteOptions
from ....protocol.modern.error_codes import ErrorCode, broker_error
from ....protocol.modern.produce import InitProducerIdReply, InitProducerIdRequest
from .batches import NO_PRODUCER, ProducerId

_log = logging.getLogger("spark_kafkawire")

#: First format of records whose batches carry an identity (Kafka 0.11).
_MAGIC_MIN: Final = 2


def identify(metadata: Metadata, options: WriteOptions, magic: int) -> ProducerId:
    """A new identity from the brokers, which speak the format ``magic``.

    ``NO_PRODUCER`` where the options want none, and with a warning where they leave the choice
    open and the brokers refuse. Raises ``OptionError`` (fatal) where the options insist,
    ``TransportError`` or ``BrokerError`` when no broker gave one for ``kafka.max.block.ms``.
    """
    if not options.delivery.idempotent:
        return NO_PRODUCER
    if magic < _MAGIC_MIN:
        return _without(options, "brokers before 0.11 have no idempotent producers")
    try:
        return new_producer(metadata, options)
    except UnsupportedVersionError as error:
        return _without(options, str(error))
    except BrokerError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return _without(options, f"{error}; brokers before 2.8 want the right IdempotentWrite")


def new_producer(metadata: Metadata, options: WriteOptions) -> ProducerId:
    """Ask any broker for a new identity. Raises as ``identify``, and ``UnsupportedVersionError``."""

    def ask() -> ProducerId:
        reply: InitProducerIdReply = metadata.ask(InitProducerIdRequest())
        if reply.error_code:
            raise broker_error(reply.error_code, "InitProducerId")
        return ProducerId(reply.producer_id, reply.producer_epoch)

    return Attempts(options.net.retry, patience_s=options.delivery.metadata_timeout_s).run(ask)


def _without(options: WriteOptions, reason: str) -> ProducerId:
    if options.delivery.insists_on_idempotence:
        raise OptionError(f"option kafka.enable.idempotence: {reason}; set it to false to write without")
    _log.warning("%s; writing without: a batch that is sent again may be in its log twice", reason)
    return NO_PRODUCER
