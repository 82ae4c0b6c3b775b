"""What to do with a batch that was not acked.

Source: Apache Kafka's Sender and TransactionManager; KIP-98, KIP-126 (splitting), KIP-360.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from ....errors import BrokerError, KafkaWireError
from ....protocol.modern.error_codes import ErrorCode
from .batches import Batch

#: Codes of a batch that is in the log; the second says that it was appended before.
ACKED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Verdict(enum.Enum):
    """What to do with the batch."""

    RETRY = "send it again"
    SPLIT = "send its halves"
    RESET_PRODUCER = "send it again under a new producer id"
    FAIL = "fail the task"


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that was not acked, and why."""

    batch: Batch
    error: KafkaWireError

    def verdict(self, *, is_first: bool, may_reset_producer: bool) -> Verdict:
        """What to do with the batch.

        ``is_first`` tells that no earlier batch of its log failed with it: later ones may have failed
        only because the first did. ``may_reset_producer`` is that of the log's state. A broker does
        not recognize a batch under a new producer id as a repeated one, so one that may be persisted
        is never sent so. Halves keep the old id, and are refused where the whole is in the log.
        """
        code = self.error.code if isinstance(self.error, BrokerError) else None
        not_persisted = not self.batch.maybe_persisted
        match code:
            case ErrorCode.MESSAGE_TOO_LARGE if self.batch.count > 1:
                return Verdict.SPLIT
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if not is_first:
                return Verdict.RETRY
            case ErrorCode.UNKNOWN_PRODUCER_ID if not is_first:
                return Verdict.RETRY
            case ErrorCode.UNKNOWN_PRODUCER_ID if not_persisted and may_reset_producer:
                return Verdict.RESET_PRODUCER
        return Verdict.RETRY if self.error.retriable else Verdict.FAIL
