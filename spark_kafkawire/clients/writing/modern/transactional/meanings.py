"""What an error of a request about a transaction means for who asked.

Errors that may pass are tried again before they come here (``net.retry``); one that comes is what was left
when the retries were used up. Source: Apache Kafka's TransactionManager; KIP-588, KIP-890, KIP-1050; what
brokers 3.9, 4.1 and 4.4 answer.
"""

from __future__ import annotations

import enum
from typing import Final

from .....errors import BrokerError, KafkaWireError
from .....protocol.modern.error_codes import ErrorCode


class Meaning(enum.Enum):
    """What the one who asked may conclude."""

    FENCED = "another one began the same transactional id since"
    GONE = "the transaction is not open: it timed out, was aborted, or never began"
    ABORTABLE = "this transaction can only be aborted; the next one may succeed"
    UNKNOWN = "nobody answered: it may have happened"
    FATAL = "it did not happen, and will not"


_MEANINGS: Final = {
    ErrorCode.PRODUCER_FENCED: Meaning.FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    ErrorCode.INVALID_TXN_STATE: Meaning.GONE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Meaning.GONE,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: Meaning.GONE,
    ErrorCode.TRANSACTION_ABORTABLE: Meaning.ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID: Meaning.ABORTABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Meaning.ABORTABLE,
}


def meaning_of(error: KafkaWireError) -> Meaning:
    """What an error means."""
    if isinstance(error, BrokerError) and error.code in _MEANINGS:
        return _MEANINGS[ErrorCode(error.code)]
    return Meaning.UNKNOWN if error.retriable or error.exhausted else Meaning.FATAL
