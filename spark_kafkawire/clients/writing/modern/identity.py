"""The producer id of an idempotent producer: InitProducerId. Source: KIP-98."""

from __future__ import annotations

import logging
from typing import Final

from ....cluster.modern.metadata import Metadata
from ....errors import BrokerError, OptionError, UnsupportedVersionError
from ....net.retry import Attempts
from ....options import WriteOptions
from ....protocol.modern.error_codes import ErrorCode, broker_error
from ....protocol.modern.init_producer_id import InitProducerIdReply, InitProducerIdRequest
from .batches import NO_PRODUCER, ProducerId

_log = logging.getLogger("spark_kafkawire")

#: First record format whose batches have a producer id (Kafka 0.11).
_MAGIC_MIN: Final = 2


def obtain_producer_id(metadata: Metadata, options: WriteOptions, magic: int) -> ProducerId:
    """A new producer id from the brokers, whose record format is ``magic``.

    ``NO_PRODUCER`` where the options want none, and with a warning where they leave the choice
    open and the brokers refuse one. Raises ``OptionError`` (fatal) where the options insist,
    ``TransportError`` or ``BrokerError`` when no broker gave one for ``kafka.max.block.ms``.
    """
    if not options.delivery.idempotent:
        return NO_PRODUCER
    if magic < _MAGIC_MIN:
        return _without_idempotence(options, "brokers before 0.11 have no idempotent producers")
    try:
        return init_producer_id(metadata, options)
    except UnsupportedVersionError as error:
        return _without_idempotence(options, str(error))
    except BrokerError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return _without_idempotence(options, f"{error}; brokers before 2.8 want the right IdempotentWrite")


def init_producer_id(metadata: Metadata, options: WriteOptions) -> ProducerId:
    """Ask any broker for a new producer id. Raises as ``obtain_producer_id``, and
    ``UnsupportedVersionError``."""

    def ask() -> ProducerId:
        reply: InitProducerIdReply = metadata.ask(InitProducerIdRequest())
        if reply.error_code:
            raise broker_error(reply.error_code, "InitProducerId")
        return ProducerId(reply.producer_id, reply.producer_epoch)

    return Attempts(options.net.retry, patience_s=options.delivery.metadata_timeout_s).run(ask)


def _without_idempotence(options: WriteOptions, reason: str) -> ProducerId:
    if options.delivery.insists_on_idempotence:
        raise OptionError(f"option kafka.enable.idempotence: {reason}; set it to false to write without")
    _log.warning("%s; writing without: a batch that is sent again may be in its log twice", reason)
    return NO_PRODUCER
