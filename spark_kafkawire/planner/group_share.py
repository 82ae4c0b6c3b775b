"""What a member of a group owns once others have given it up, and where those logs start and end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from ..cluster.claim import Claim
from ..cluster.cluster import cluster_of
from ..cluster.membership import Member
from ..errors import UnknownTopicError, quoted
from ..model import LogBounds, TopicPartition
from ..net.retry import Attempts
from ..options import ReadOptions
from .stream_leaders import bounds_of

_log = logging.getLogger("spark_kafkawire")

#: How often is looked whether others have given up what they have to, seconds.
_PAUSE_S: Final = 0.1


def settled(
    member: Member,
    options: ReadOptions,
    *,
    needs_topics: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[TopicPartition, Claim]:
    """What a member owns, once others have given up what they have to; for so long they are waited for as for
    a broker, and with ``needs_topics`` so are the brokers of topics that none has.

    Raises as ``Member.hold`` does, and ``UnknownTopicError`` (fatal) for a topic that is needed.
    """
    patience_s = options.planning_retry.patience_s
    deadline_s = clock() + patience_s
    while True:
        claims = member.hold()
        others, missing = member.others, member.unregistered if needs_topics else []
        if not (others or missing) or clock() >= deadline_s:
            break
        sleep(_PAUSE_S)
    if missing:
        raise _unregistered(options, missing[0], patience_s)
    if others:
        _tell_of(others, options, patience_s)
    return claims


def _unregistered(options: ReadOptions, topic: str, patience_s: float) -> UnknownTopicError:
    """A broker's registrations are gone while its session is expired: a share of none would be no rows."""
    return UnknownTopicError(
        f"group {quoted(options.group_id)}: no broker has registered topic {quoted(topic)} in ZooKeeper "
        f"within {patience_s:g} s (patience): check its name, and start its brokers"
    )


def _tell_of(others: Mapping[TopicPartition, str], options: ReadOptions, patience_s: float) -> None:
    log, owner = next(iter(others.items()))
    _log.warning(
        "group %s: %s is to be read here, and %s has not given it up within %g s (patience), as %d "
        "partitions in all: what is owned is read",
        quoted(options.group_id),
        log,
        owner,
        patience_s,
        len(others),
    )


def owned_bounds(options: ReadOptions, logs: list[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Where logs start and end now, whose brokers are waited for. Raises ``BrokersMissingError`` for
    one that does not come, and as ``Cluster.bounds`` does."""
    if not logs:
        return {}
    cluster = cluster_of(options)
    return dict(Attempts(options.planning_retry).run(lambda: bounds_of(cluster, logs)))
