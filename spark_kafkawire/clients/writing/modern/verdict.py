"""What becomes of a batch that a broker has not said to have.

Source: Apache Kafka's Sender and TransactionManager; KIP-98, KIP-126 (splitting), KIP-360.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from ....errors import BrokerError, KafkaWireError
from ....protocol.modern.error_codes import ErrorCode
from .batches import Batch

#: Codes of a batch that is in the log; the second one tells that it was there before.
PROVEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Verdict(enum.Enum):
    """What to do with the batch."""

    RESEND = "send it again"
    SPLIT = "send its halves"
    BEGIN_ANEW = "send it again under a new identity"
    FAIL = "give up"


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that was not appended, as far as is known, and why."""

    batch: Batch
    error: KafkaWireError

    def verdict(self, *, is_first: bool, is_known: bool) -> Verdict:
        """What to do with the batch.

        ``is_first`` tells that no earlier batch of its log failed with it: the others may have
        failed for the sake of the first. ``is_known`` tells that the broker has had batches of
        this identity. A batch under a new identity is no repetition for the broker: nothing of it
        may be in doubt. Halves are under the old one, and refused where the whole is there.
        """
        code = self.error.code if isinstance(self.error, BrokerError) else None
        refused = not self.batch.is_in_doubt
        match code:
            case ErrorCode.MESSAGE_TOO_LARGE if self.batch.count > 1:
                return Verdict.SPLIT
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if not is_first:
                return Verdict.RESEND
            case ErrorCode.UNKNOWN_PRODUCER_ID if not is_first:
                return Verdict.RESEND
            case ErrorCode.UNKNOWN_PRODUCER_ID if refused and is_known:
                return Verdict.BEGIN_ANEW
        return Verdict.RESEND if self.error.retriable else Verdict.FAIL
