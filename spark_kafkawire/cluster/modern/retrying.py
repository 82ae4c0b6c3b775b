"""How long brokers are asked again: for each kind of answer that may be another one a moment later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from ...errors import BrokerError, KafkaWireError, UnknownTopicError
from ...net.retry import Attempts
from ...net.transport import Deadline
from ...options import NetOptions
from ...protocol.modern.error_codes import ErrorCode

T = TypeVar("T")

#: Errors of a partition that has no leader for a while.
_ELECTION_CODES: Final = frozenset((ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND))


def retried(
    attempt: Callable[[], T], net: NetOptions, within: Deadline | None = None, *, is_created: bool = False
) -> T:
    """What an attempt finds, made again where it fails: for an election as long as one request may take at
    least, for a topic that no broker knows as often as the retries say (as for an election where it
    ``is_created``: brokers hear of it a moment later), for all else with patience.

    Raises the last error; ``UnknownTopicError`` (fatal) where no broker knows the topic.
    """
    others = Attempts(net.retry)
    # An election takes seconds; a topic that somebody just created is there in a moment.
    elections = Attempts(net.retry, patience_s=net.request_timeout_s)
    unknown_topics = elections if is_created else Attempts(net.retry.impatient)
    while True:
        try:
            outcome = attempt()
        except KafkaWireError as error:
            code = error.code if isinstance(error, BrokerError) else None
            is_unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            attempts = unknown_topics if is_unknown else elections if code in _ELECTION_CODES else others
            try:
                attempts.failed(error, within)
            except BrokerError as last:
                if last.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                raise UnknownTopicError(str(last)) from last
        else:
            others.progressed()
            elections.progressed()
            return outcome
