"""What a member of a group owns once others have given it up, and where those logs start and end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from ..cluster.claim import Claim
from ..cluster.cluster import cluster_of
from ..cluster.membership import Member
from ..errors import quoted
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
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[TopicPartition, Claim]:
    """What a member owns, once others have given up what they have to; for so long they are waited for as for
    a broker. Raises as ``Member.hold`` does."""
    patience_s = options.planning_retry.patience_s
    deadline_s = clock() + patience_s
    while True:
        claims = member.hold()
        others = member.others
        if not others or clock() >= deadline_s:
            break
        sleep(_PAUSE_S)
    if others:
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
    return claims


def owned_bounds(options: ReadOptions, logs: list[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Where logs start and end now, whose brokers are waited for. Raises ``BrokersMissingError`` for
    one that does not come, and as ``Cluster.bounds`` does."""
    if not logs:
        return {}
    cluster = cluster_of(options)
    return dict(Attempts(options.planning_retry).run(lambda: bounds_of(cluster, logs)))
