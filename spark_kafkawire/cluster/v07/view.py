"""Brokers and partitions of a cluster of Kafka 0.7, from ZooKeeper or from the brokers themselves.

cluster = view(options.discovery, options.net)
partitions = partitions_of_topics(cluster, options.discovery, ["debian-gzip"], options.net)
bounds = all_bounds(cluster, partitions, options.net)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import Discovery, NetOptions

from ..asking import side_by_side
from ..topic_names import unknown_topics
from .expected import check_brokers
from .probe import TopicOnBroker, probe
from .zookeeper import discover


def view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster now. A view from ``broker.list`` has brokers without partitions.

    Waits for expected brokers. Raises ``DiscoveryError`` (fatal),
    ``BrokersMissingError`` when the retries are used up.
    """

    def look() -> ClusterView:
        found = current_view(discovery, net)
        check_expected(found, discovery)
        return found

    return retried(look, net.retry)


def current_view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster as it is registered now, without waiting for brokers.

    Raises ``BrokersMissingError`` (retriable) if no broker is registered, ``DiscoveryError`` (fatal).
    """
    if discovery.zookeeper_connect is not None:
        return discover(discovery, net.discovery_timeout_s)
    return ClusterView(discovery.broker_list, ())


def check_expected(view: ClusterView, discovery: Discovery) -> None:
    """Compare the brokers with ``expectedBrokers``. Raises as ``check_brokers``."""
    check_brokers(discovery.expected_brokers, view.brokers, "registered in ZooKeeper")


def partitions_of_topics(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> tuple[TopicPartition, ...]:
    """Partitions of the topics, sorted; with ZooKeeper also those whose broker is not alive.

    Raises ``UnknownTopicError`` (fatal), and without ZooKeeper, or with ``expectedBrokers``, the errors of
    ``probe``.
    """
    if discovery.zookeeper_connect is None:
        found = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        partitions = _configured(found, only_existing=True)
    else:
        wanted = set(topics)
        partitions = tuple(tp for tp in view.partitions if tp.topic in wanted)
        if discovery.expected_brokers is not None:
            partitions = tuple(sorted({*partitions, *unregistered_partitions(view, topics, net)}))
    if missing := sorted(set(topics) - {tp.topic for tp in partitions}):
        raise unknown_topics(missing, view.topics)
    return partitions


def partitions_to_write(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> dict[str, tuple[TopicPartition, ...]]:
    """Partitions of live brokers to which each topic can be written, sorted by broker and partition.

    A topic that ZooKeeper does not know yet has partition 0 on every live broker, as in the 0.7 producer:
    after the first write the broker registers all of its partitions. Without ZooKeeper, raises as ``probe``
    does.
    """
    if discovery.zookeeper_connect is None:
        found = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        partitions = _configured(found, only_existing=False)
    else:
        alive = {broker.id for broker in view.brokers}
        partitions = tuple(tp for tp in view.partitions if tp.broker in alive)
    return {
        topic: tuple(sorted((tp for tp in partitions if tp.topic == topic), key=_by_broker))
        or tuple(TopicPartition(topic, 0, broker.id) for broker in view.brokers)
        for topic in topics
    }


def unregistered_partitions(
    view: ClusterView, topics: Iterable[str], net: NetOptions, brokers: Iterable[Broker] | None = None
) -> tuple[TopicPartition, ...]:
    """Partitions on live brokers that are not registered yet, from requests to the brokers.

    A broker that starts registers itself first, and then its topics one by one. Raises as ``probe``.
    """
    registered = {(tp.topic, tp.broker) for tp in view.partitions}
    asked = {
        broker: unregistered
        for broker in (view.brokers if brokers is None else brokers)
        if (unregistered := [topic for topic in topics if (topic, broker.id) not in registered])
    }
    return _configured(side_by_side(asked, lambda broker: probe(broker, asked[broker], net)), True)


def _by_broker(topic_partition: TopicPartition) -> tuple[int, int]:
    assert topic_partition.broker is not None
    return topic_partition.broker, topic_partition.partition


def _configured(
    found: Mapping[Broker, Mapping[str, TopicOnBroker]], only_existing: bool
) -> tuple[TopicPartition, ...]:
    """Configured partitions of brokers that have the topic, as ZooKeeper would list them."""
    return tuple(
        sorted(
            TopicPartition(topic, partition, broker.id)
            for broker, topics in found.items()
            for topic, on_broker in topics.items()
            for partition in range(on_broker.partition_count)
            if on_broker.exists or not only_existing
        )
    )
