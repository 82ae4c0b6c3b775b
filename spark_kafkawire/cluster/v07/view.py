"""Which brokers there are and which logs they hold, from ZooKeeper or from the brokers.

cluster = view(options.discovery, options.net)
logs = logs_of_topics(cluster, options.discovery, ["debian-gzip"], options.net)
bounds = all_bounds(cluster, logs, options.net)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...model import Broker, ClusterView, TopicPartition
from ...net.retry import Attempts
from ...options import Discovery, NetOptions
from ..asking import side_by_side
from ..topic_names import unknown_topics
from .expected import check_brokers
from .probe import TopicOnBroker, probe
from .zookeeper import discover


def view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster at this moment. A view from ``broker.list`` holds brokers and no logs.

    Brokers that ought to be registered are waited for. Raises ``DiscoveryError`` (fatal),
    ``BrokersMissingError`` when the retries are used up.
    """

    def look() -> ClusterView:
        found = current_view(discovery, net)
        check_expected(found, discovery)
        return found

    return Attempts(net.retry).run(look)


def current_view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster as it is registered now: no broker is waited for.

    Raises ``BrokersMissingError`` (retriable) where it shows no broker at all, ``DiscoveryError`` (fatal).
    """
    if discovery.zookeeper_connect is not None:
        return discover(discovery, net.discovery_timeout_s)
    return ClusterView(discovery.broker_list, ())


def check_expected(view: ClusterView, discovery: Discovery) -> None:
    """Raises as ``check_brokers`` where the view has other brokers than the options expect."""
    check_brokers(discovery.expected_brokers, view.brokers, "registered in ZooKeeper")


def logs_of_topics(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> tuple[TopicPartition, ...]:
    """All logs of the topics, sorted; with ZooKeeper also those whose broker is not alive.

    Raises ``UnknownTopicError`` (fatal), and without ZooKeeper, or where brokers are expected, what
    ``probe`` raises.
    """
    if discovery.zookeeper_connect is None:
        found = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        logs = _configured(found, only_existing=True)
    else:
        wanted = set(topics)
        logs = tuple(log for log in view.logs if log.topic in wanted)
        if discovery.expected_brokers is not None:
            logs = tuple(sorted({*logs, *unregistered_logs(view, topics, net)}))
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


def unregistered_logs(
    view: ClusterView, topics: Iterable[str], net: NetOptions, brokers: Iterable[Broker] | None = None
) -> tuple[TopicPartition, ...]:
    """The logs of topics that live brokers hold and have not registered: the brokers are probed.

    A broker that starts registers itself first and its topics one by one after that. Raises as ``probe``.
    """
    registered = {(log.topic, log.broker) for log in view.logs}
    asked = {
        broker: unregistered
        for broker in (view.brokers if brokers is None else brokers)
        if (unregistered := [topic for topic in topics if (topic, broker.id) not in registered])
    }
    return _configured(side_by_side(asked, lambda broker: probe(broker, asked[broker], net)), True)


def _by_broker(log: TopicPartition) -> tuple[int, int]:
    assert log.broker is not None
    return log.broker, log.partition


def _configured(
    found: Mapping[Broker, Mapping[str, TopicOnBroker]], only_existing: bool
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
