"""New topics in noida-db, judged by librdkafka's clients."""

from __future__ import annotations

import pytest

from spark_kafkawire.cluster.modern.create_topics import create_topics
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import BrokerError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)


def metadata_of(noida: NoidaBroker) -> Metadata:
    return Metadata(servers(noida.bootstrap_servers), NET)


def test_topics_are_created_with_their_partitions(noida: NoidaBroker) -> None:
    create_topics(metadata_of(noida), {"made-1": 1, "made-3": 3}, NET)
    for topic, count in (("made-1", 1), ("made-3", 3)):
        partitions = metadata_of(noida).partitions_of(topic)
        assert partitions == tuple(TopicPartition(topic, partition) for partition in range(count))
    librdkafka.produce(noida.bootstrap_servers, "made-3", [Record(b"v", partition=2)])
    assert librdkafka.offsets(noida.bootstrap_servers, "made-3", 2) == (0, 1)


def test_created_topics_are_known_to_who_created_them(noida: NoidaBroker) -> None:
    metadata = metadata_of(noida)
    create_topics(metadata, {"made-and-known": 1}, NET)
    assert metadata.known_leaders([TopicPartition("made-and-known", 0)])


def test_a_topic_that_is_there_is_left_alone(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    create_topics(metadata_of(noida), {topic: 5, "made-beside": 1}, NET)
    metadata = metadata_of(noida)
    assert [len(metadata.partitions_of(name)) for name in (topic, "made-beside")] == [2, 1]


def test_a_refusal_names_the_topic_and_the_controller(noida: NoidaBroker) -> None:
    with pytest.raises(BrokerError) as caught:
        create_topics(metadata_of(noida), {"no good": 1}, NET)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "CreateTopics of 'no good' on broker " in str(caught.value)


def test_nothing_to_create_asks_nobody() -> None:
    create_topics(Metadata((), NET), {}, NET)
