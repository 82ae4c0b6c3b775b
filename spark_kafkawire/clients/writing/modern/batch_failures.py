"""Failed batches of a write to modern Kafka (0.8 to 4.x): to retry them, to split them, or to fail the write.

A batch fails if the broker refuses it, or if its response is missing.
Source: Apache Kafka's Sender and TransactionManager; KIP-98, KIP-126 (splitting), KIP-360.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import LOG, Action, BrokerError, KafkaWireError
from spark_kafkawire.model import Broker
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.produce import ProducePartitionResponse

from .batches import ProducerBatch

#: Codes of a batch that is in the log; the second marks a duplicate.
ACKED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
#: Advice for POLICY_VIOLATION. Azure Event Hubs responds with it to a request that its throttling would delay
#: for longer than the request timeout. Source: its troubleshooting guide for Apache Kafka.
_THROTTLED: Final = (
    "Azure Event Hubs answers so where more is written than its throughput units allow: give it more of "
    "them, or let fewer tasks write"
)


class Verdict(enum.Enum):
    """Next step for a batch that failed."""

    RETRY = "send it again"
    SPLIT = "send its halves"
    WHOLE = "send the batch that it was cut from"
    RESET_PRODUCER = "send it again under a new producer id"
    FAIL = "fail the task"


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """Batch that was not acknowledged, and the error."""

    batch: ProducerBatch
    error: KafkaWireError

    def verdict(self, *, is_first: bool, may_reset_producer: bool) -> Verdict:
        """Decide the next step for the batch.

        ``is_first`` means that no earlier batch of its partition failed with it: later ones may have failed
        only because the first did. ``may_reset_producer`` comes from the partition's state. A broker does
        not recognize a batch under a new producer id as a duplicate, so a batch that may be persisted keeps
        its id. Halves keep the id as well. The broker refuses the first half if the whole batch is in the
        log: then the whole batch is sent, and acknowledged as a duplicate.
        """
        code = self.error.code if isinstance(self.error, BrokerError) else None
        not_persisted = not self.batch.maybe_persisted
        match code:
            case ErrorCode.MESSAGE_TOO_LARGE if self.batch.count > 1:
                return Verdict.SPLIT
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if not is_first:
                return Verdict.RETRY
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if self.batch.begins_its_whole:
                return Verdict.WHOLE
            case ErrorCode.UNKNOWN_PRODUCER_ID if not is_first:
                return Verdict.RETRY
            case ErrorCode.UNKNOWN_PRODUCER_ID if not_persisted and may_reset_producer:
                return Verdict.RESET_PRODUCER
        return Verdict.RETRY if self.error.retriable else Verdict.FAIL


class ProduceErrors:
    """Errors of one task's batches. Throttling is logged once."""

    def __init__(self) -> None:
        self._is_throttling_logged = False

    def error(self, broker: Broker, batch: ProducerBatch, answer: ProducePartitionResponse) -> BrokerError:
        """Make the error of a batch that was refused. A policy violation may be a broker that throttles: it
        is retried until the deadline of the batch."""
        place = f"Produce to {batch.topic_partition} on {broker}"
        error = broker_error(answer.error_code, place, answer.reason)
        if error.code != ErrorCode.POLICY_VIOLATION:
            return error
        error = error.advised(_THROTTLED)
        error.action = Action.BACK_OFF
        if not self._is_throttling_logged:
            self._is_throttling_logged = True
            LOG.warning("%s; trying again for up to %s", error, batch.deadline)
        return error
