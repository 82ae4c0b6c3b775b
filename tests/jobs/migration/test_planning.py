"""The content of a target before a migration copies."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.migration.planning import PartitionCopy, prepare_topics
from spark_kafkawire.jobs.migration.routes import Route
from spark_kafkawire.jobs.migration.state import Mark, PartitionProgress
from spark_kafkawire.model import Broker, Leader, TopicPartition
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog

from .migrating import clusters_of

SOURCE, TARGET = TopicPartition("old", 0, 0), TopicPartition("t", 0)


@pytest.fixture
def server() -> Iterator[LogServer]:
    """A broker whose topics have ids."""
    with LogServer({"t": [MemoryLog()]}) as server:
        yield server


def copy(topic_id: str | None) -> PartitionCopy:
    """A copy that an earlier run has begun."""
    none = Mark(0, 0)
    progress = PartitionProgress(SOURCE, TARGET, topic_id, ProducerId(1, 0), copied=none, verified=none)
    return PartitionCopy(Route(SOURCE, TARGET), Leader(Broker(0, "localhost", 1)), 0, 0, progress)


def test_a_target_that_was_made_anew_since_the_last_run_is_refused(server: LogServer) -> None:
    clusters = clusters_of("localhost:1", server.bootstrap_servers, ["old"])
    found = str(server.broker.topic_id("t"))
    for known in (found, None):  # an earlier run's brokers may have had no ids
        assert prepare_topics(clusters, [copy(known)], create=False) == {TARGET: found}
    with pytest.raises(OptionError, match=r"^topic 't' of the target was deleted and created again since"):
        prepare_topics(clusters, [copy(str(uuid.uuid4()))], create=False)
