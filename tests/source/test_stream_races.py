"""A topic that is deleted between two questions of one batch: after it was seen, before its offsets are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from spark_kafkawire.errors import DataLossError
from spark_kafkawire.planner import stream_leaders
from spark_kafkawire.planner.stream_partitions import StreamPartitions
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.streaming import QUICK, Checkpoint, Killed, Query


def send(noida: NoidaBroker, topic: str, *values: bytes) -> None:
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(value) for value in values])


def once_after(patch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], None]) -> list[int]:
    """Let something happen after the next call of a function has its answer; how often it was called."""
    original, calls = getattr(owner, name), [0]

    def called(*arguments: Any) -> Any:
        found = original(*arguments)
        calls[0] += 1
        if calls[0] == 1:
            happens()
        return found

    patch.setattr(owner, name, called)
    return calls


class Topics:
    """Two topics, both of which a pattern finds; ``doomed`` is deleted sooner or later."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._noida = noida
        self.stays = noida.create_topic()
        self.doomed = f"{self.stays}-doomed"

    def create(self, *values: bytes) -> None:
        self._noida.create_topic(name=self.doomed)
        send(self._noida, self.doomed, *values)

    def delete(self) -> None:
        librdkafka.delete_topic(self._noida.bootstrap_servers, self.doomed)

    def query(self, checkpoint: Checkpoint, fail: str) -> Query:
        given = {"kafka.bootstrap.servers": self._noida.bootstrap_servers, "failOnDataLoss": fail}
        selected = {"subscribePattern": f"^{self.stays}", "startingOffsets": "earliest"}
        return Query(checkpoint, **QUICK, **given, **selected)


@pytest.fixture
def topics(noida: NoidaBroker) -> Topics:
    topics = Topics(noida)
    send(noida, topics.stays, b"1", b"2")
    return topics


def _deleted_after_the_look(
    noida: NoidaBroker, topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Query, list[int]]:
    topics.create(b"a")
    running = topics.query(Checkpoint(), fail)
    assert running.values() == [[b"1", b"2", b"a"]]
    send(noida, topics.stays, b"3")
    return running, once_after(monkeypatch, StreamPartitions, "_there", topics.delete)


def test_a_topic_deleted_right_after_the_look_is_looked_for_again_and_the_query_goes_on(
    noida: NoidaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running, looks = _deleted_after_the_look(noida, topics, "false", monkeypatch)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert running.values() == [[b"3"]]
    assert looks[0] > 1
    [reported] = [each.getMessage() for each in caplog.records if "continuing because" in each.getMessage()]
    assert reported.startswith(f"{topics.doomed} 0 at offset 1 no longer exists")


def test_a_topic_deleted_right_after_the_look_is_a_data_loss(
    noida: NoidaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, looks = _deleted_after_the_look(noida, topics, "true", monkeypatch)
    with pytest.raises(DataLossError, match=f"^{topics.doomed} 0 at offset 1 no longer exists: "):
        running.batch()
    assert looks[0] > 1


def _deleted_after_its_leader_was_found(
    topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Query, list[int]]:
    """A batch that takes in a new topic was planned, and is run again after a crash: where the new topic
    begins is asked for once more."""
    checkpoint = Checkpoint()
    assert topics.query(checkpoint, fail).values() == [[b"1", b"2"]]
    topics.create(b"a")
    with pytest.raises(Killed):
        topics.query(checkpoint, fail).batch("written")
    return topics.query(checkpoint, fail), once_after(
        monkeypatch, stream_leaders, "leaders_of", topics.delete
    )


def test_a_new_topic_deleted_between_its_leader_and_its_start_is_left_out(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running, asked = _deleted_after_its_leader_was_found(topics, "false", monkeypatch)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert running.batch() == []
    assert asked[0] > 1
    assert f"{topics.doomed} 0 at offset 0 no longer exists" in caplog.text


def test_a_new_topic_deleted_between_its_leader_and_its_start_is_a_data_loss(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, asked = _deleted_after_its_leader_was_found(topics, "true", monkeypatch)
    with pytest.raises(DataLossError, match=f"^{topics.doomed} 0 at offset 0 no longer exists: "):
        running.batch()
    assert asked[0] > 1
