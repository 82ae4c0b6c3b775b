"""Which brokers there are and which logs they hold, from ZooKeeper or from the brokers.

cluster = view(options.discovery, options.net)
logs = logs_of_topics(cluster, options.discovery, ["debian-gzip"], options.net)
bounds = all_bounds(cluster, logs, options.net)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import UnknownTopicError, lookalikes, shown
from ..model import Broker, ClusterView, TopicPartition
from ..options import Discovery, NetOptions
from .asking import side_by_side
from .probe import TopicOnBroker, probe
from .zookeeper import discover

#: Topics that an error names, so that its one line can be read.
NAMES_COUNT_MAX: Final = 10


def view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster at this moment. A view from ``broker.list`` holds brokers and no logs.

    Raises ``DiscoveryError`` (fatal).
    """
    if discovery.zookeeper_connect is not None:
        return discover(discovery, net.request_timeout_s)
    return ClusterView(discovery.broker_list, ())


def logs_of_topics(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> tuple[TopicPartition, ...]:
    """All logs of the topics, sorted; with ZooKeeper also those whose broker is not alive.

    Raises ``UnknownTopicError`` (fatal), and without ZooKeeper what ``probe`` raises.
    """
    if discovery.zookeeper_connect is None:
        found = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        logs = _configured(found, only_existing=True)
    else:
        wanted = set(topics)
        logs = tuple(log for log in view.logs if log.topic in wanted)
    if missing := sorted(set(topics) - {log.topic for log in logs}):
        raise unknown_topics(missing, view.topics)
    return logs


def logs_to_write(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> dict[str, tuple[TopicPartition, ...]]:
    """The logs of live brokers that each topic can be written to, sorted by broker and partition.

    A topic that ZooKeeper does not know yet is partition 0 of every live broker, as the 0.7
    producer has it: the first write makes the broker register all its partitions. Raises as
    ``probe`` does, without ZooKeeper.
    """
    if discovery.zookeeper_connect is None:
        found = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        logs = _configured(found, only_existing=False)
    else:
        alive = {broker.id for broker in view.brokers}
        logs = tuple(log for log in view.logs if log.broker in alive)
    return {
        topic: tuple(sorted((log for log in logs if log.topic == topic), key=_by_broker))
        or tuple(TopicPartition(topic, 0, broker.id) for broker in view.brokers)
        for topic in topics
    }


def _by_broker(log: TopicPartition) -> tuple[int, int]:
    assert log.broker is not None
    return log.broker, log.partition


def _configured(
    found: dict[Broker, dict[str, TopicOnBroker]], only_existing: bool
) -> tuple[TopicPartition, ...]:
    """All configured partitions, as ZooKeeper would list them: of brokers that hold the topic."""
    return tuple(
        sorted(
            TopicPartition(topic, partition, broker.id)
            for broker, topics in found.items()
            for topic, on_broker in topics.items()
            for partition in range(on_broker.partition_count)
            if on_broker.exists or not only_existing
        )
    )


def unknown_topics(missing: Sequence[str], known: Sequence[str]) -> UnknownTopicError:
    """The error for topics that are not among the known ones; it names those that look alike."""
    close = [name for topic in missing[:NAMES_COUNT_MAX] for name in lookalikes(topic, known)]
    names = list(dict.fromkeys([*close, *known]))
    there_are = f"; there are {_listed(names)}" if names else ""
    return UnknownTopicError(f"no broker holds the topic {_listed(missing)}{there_are}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_COUNT_MAX
    return ", ".join(map(shown, names[:NAMES_COUNT_MAX])) + (f" and {more} more" if more > 0 else "")
