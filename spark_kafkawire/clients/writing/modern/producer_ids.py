"""Producer ids for idempotent writes to Kafka 0.11 to 4.x, from InitProducerId. Source: KIP-98."""

from __future__ import annotations

from typing import Final

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import LOG, BrokerError, OptionError, UnsupportedVersionError
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from .batches import NO_PRODUCER, ProducerId

#: First record format whose batches have a producer id (Kafka 0.11).
_MAGIC_MIN: Final = 2


def obtain_producer_id(metadata: Metadata, options: WriteOptions, magic: int) -> ProducerId:
    """Obtain a new producer id from the brokers, whose record format is ``magic``.

    Returns ``NO_PRODUCER`` if the options ask for no id, and with a warning if they leave the choice open and
    the brokers refuse one. Raises ``OptionError`` (fatal) if the options insist, ``TransportError`` or
    ``BrokerError`` if no broker returned an id within ``kafka.max.block.ms``.
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
        response: InitProducerIdResponse = metadata.ask(InitProducerIdRequest())
        if response.error_code:
            raise broker_error(response.error_code, "InitProducerId")
        return ProducerId(response.producer_id, response.producer_epoch)

    return retried(ask, options.net.retry.lasting(options.delivery.metadata_timeout_s))


def _without_idempotence(options: WriteOptions, reason: str) -> ProducerId:
    if options.delivery.insists_on_idempotence:
        raise OptionError(
            f"option kafka.enable.idempotence: {reason}; set it to false, to write with "
            "duplicates after retries"
        )
    LOG.warning("%s; writing without: a batch that is sent again may be in its partition twice", reason)
    return NO_PRODUCER
