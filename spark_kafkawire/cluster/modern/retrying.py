"""Retries of Metadata and ListOffsets requests to modern Kafka (0.8 to 4.x), by kind of temporary error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from spark_kafkawire.errors import BrokerError, KafkaWireError, UnknownTopicError
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode

T = TypeVar("T")

#: Errors of a partition that temporarily has no leader.
_ELECTION_CODES: Final = frozenset((ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND))


def metadata_retried(
    attempt: Callable[[Deadline | None], T],
    net: NetOptions,
    within: Deadline | None = None,
    *,
    is_created: bool = False,
) -> T:
    """Run an attempt until it succeeds or its retries are used up.

    An election may take at least the time of one request. An unknown topic is retried as often as the retries
    allow, or like an election if it ``is_created`` just now: brokers learn of it a moment later. Other errors
    are retried for the whole retry time. Until a server of the cluster has answered, an attempt gets the
    deadline of the first contact, then ``within``.

    Raises the last error; ``UnknownTopicError`` (fatal) if no broker knows the topic.
    """
    bootstrap = net.retry.bootstrap
    with bootstrap.reaching() as contact:

        def bounded() -> T:
            return attempt(within if contact is None or bootstrap.is_answered else contact)

        return _repeated(bounded, net, within, is_created)


def _repeated(attempt: Callable[[], T], net: NetOptions, within: Deadline | None, is_created: bool) -> T:
    others = Attempts(net.retry)
    # An election takes seconds; a topic that was just created exists in a moment.
    elections = Attempts(net.request_retry)
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
