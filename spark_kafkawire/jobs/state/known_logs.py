"""Logs that a job knows of, from its earlier runs or from a group's offsets, against those that are there.

ZooKeeper cannot prove that a log of 0.7 is gone: while its broker is down, or its session is expired, both
of its registrations are missing. So what was read before and is not there now is waited for, and then an
error, unless the user says that its broker is gone for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ...cluster.cluster import Cluster
from ...errors import BrokersMissingError
from ...model import TopicPartition
from ...options import ReadOptions
from ...planner.batch import covers

#: Logs that an error names.
_NAMES_COUNT_MAX: Final = 5


class KnownLogs:
    """What a run knows of: the ``known`` logs, as far as the options select their topics."""

    def __init__(
        self, options: ReadOptions, known: Iterable[TopicPartition], gone_brokers: Collection[int] = ()
    ) -> None:
        self._gone_brokers = gone_brokers
        self._known = sorted({log for log in known if covers(options.selection, log.topic)})

    def await_brokers(self, cluster: Cluster) -> None:
        """Wait for the brokers of all of them but for those that are gone for good.

        Raises ``BrokersMissingError`` where one does not come, unless data loss is borne.
        """
        try:
            cluster.await_logs([log for log in self._known if not self.is_given_up(log)])
        except BrokersMissingError as error:
            raise error.advised(
                "earlier runs, or the group, have read its logs; where it is gone for good, say --gone-broker"
            ) from error

    def is_given_up(self, log: TopicPartition) -> bool:
        """Whether the user says that the log's broker is gone for good."""
        return log.broker is not None and log.broker in self._gone_brokers

    def missing(self, found: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those that are not among the logs that were found."""
        there = set(found)
        return [log for log in self._known if log not in there]


def missing_lines(logs: Collection[TopicPartition], positions: Mapping[TopicPartition, int]) -> list[str]:
    """A line for each log that is passed over."""
    return [
        f"{log} is not there: it was read up to {positions[log]}"
        if log in positions
        else f"{log} is not there: the group has read it"
        for log in logs
    ]


def missing_text(missing: Collection[TopicPartition]) -> str:
    """What an error says of logs that are not there."""
    named = ", ".join(map(str, sorted(missing)[:_NAMES_COUNT_MAX]))
    more = len(missing) - _NAMES_COUNT_MAX
    more_named = f" and {more} more" if more > 0 else ""
    return f"{named}{more_named}: earlier runs, or the group, have read this, and no broker holds it now"
