"""Migrations in transactions: a piece is there with its note or not at all, whatever happens to a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import DeliveryError, OptionError
from spark_kafkawire.jobs.migration.clusters import Clusters
from spark_kafkawire.jobs.migration.report import check
from spark_kafkawire.jobs.migration.run import Settings, describe
from spark_kafkawire.jobs.migration.state import load_state
from tests.support import librdkafka, replay
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .migrating import (
    FETCH,
    PIECE_BYTES,
    VALUES,
    Killed,
    clusters_of,
    killed_after,
    message_set,
    one_by_one,
    pieces_to_copy,
    ports,
    read,
    run,
    unheard,
    without_comparing,
)


@pytest.fixture
def topic(corpus: EmbeddedCluster) -> str:
    """A topic of the source that no other test has."""
    return pieces_to_copy(corpus)


@pytest.fixture
def clusters(corpus: EmbeddedCluster, noida: NoidaBroker, topic: str) -> Clusters:
    return clusters_of(
        corpus.zookeeper_connect, noida.bootstrap_servers, [topic], exactly_once=True, fetchBytes=FETCH
    )


def counted(noida: NoidaBroker, topic: str) -> list[bytes]:
    return read(noida, topic, isolation_level="read_committed")


def twice(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs each task a second time, as Spark does where it has lost the first result."""
    one_by_one(function, tasks)
    return one_by_one(function, tasks)


def test_what_a_task_has_committed_that_nobody_heard_of_is_known(
    clusters: Clusters, noida: NoidaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_comparing(monkeypatch)
    with pytest.raises(Killed):
        run(clusters, tmp_path / "unheard", {topic: topic}, runner=unheard)
    assert counted(noida, topic) == VALUES
    summary = run(clusters, tmp_path / "unheard", {topic: topic})
    assert (summary["messages"], summary["messages_found"]) == (0, 3)

    summary = run(clusters, tmp_path / "twice", {topic: f"{topic}-twice"}, PIECE_BYTES, twice)
    check(summary)
    assert counted(noida, f"{topic}-twice") == VALUES


def test_where_brokers_have_forgotten_how_far_a_partition_is_what_is_there_is_compared(
    clusters: Clusters, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    """As they do after seven days."""
    with pytest.raises(Killed):
        run(clusters, tmp_path, {topic: topic}, PIECE_BYTES, unheard)
    assert counted(noida, topic) == VALUES[:1]
    librdkafka.delete_group(noida.bootstrap_servers, group_of(tmp_path, topic))
    summary = run(clusters, tmp_path, {topic: topic}, PIECE_BYTES)
    check(summary)
    assert counted(noida, topic) == VALUES
    assert (summary["messages"], summary["messages_found"]) == (2, 1)


def group_of(state: Path, topic: str) -> str:
    """The group of the first partition of a migration."""
    known = load_state(state)
    assert known is not None
    return f"{known.transactional_id}-{topic}-0-log"


def test_a_later_run_copies_what_came_since(
    clusters: Clusters, corpus: EmbeddedCluster, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    run(clusters, tmp_path, {topic: topic})
    # Others may write to the target between the runs, in transactions or without.
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"foreign", partition=0)])
    librdkafka.abort(noida.bootstrap_servers, topic, [Record(b"aborted", partition=0)])
    replay.produce(ports(corpus)[0], (topic, 0), message_set(b"four"))
    summary = run(clusters, tmp_path, {topic: topic})
    check(summary)
    assert (summary["messages"], summary["messages_found"]) == (1, 0)
    assert counted(noida, topic) == [*VALUES, b"foreign", b"four"]


def test_an_older_copy_of_the_state_doubles_nothing_and_compares_nothing(
    clusters: Clusters,
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_comparing(monkeypatch)
    run(clusters, tmp_path / "state", {topic: topic})
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    replay.produce(ports(corpus)[0], (topic, 0), message_set(b"four"))
    run(clusters, tmp_path / "state", {topic: topic})
    summary = run(clusters, tmp_path / "older", {topic: topic})
    check(summary)
    assert (summary["messages"], summary["messages_found"]) == (0, 1)
    assert counted(noida, topic) == [*VALUES, b"four"]


@pytest.mark.parametrize(
    ("owner", "step", "said"),
    [
        (Producer, "finish", "INVALID_PRODUCER_EPOCH"),
        (Transactions, "commit_offsets", "another run of this migration began the same partition"),
        (Transactions, "end", "another run of this migration began the same partition"),
    ],
)
def test_of_two_runs_that_do_not_see_each_other_one_gives_way(
    clusters: Clusters, noida: NoidaBroker, topic: str, tmp_path: Path, owner: type, step: str, said: str
) -> None:
    """As from copies of a state on two machines: what the one had begun does not count."""
    with pytest.raises(Killed):
        run(clusters, tmp_path / "one", {topic: topic}, runner=killed_after(0))
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    method = getattr(owner, step)

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        patch.undo()
        check(run(clusters, tmp_path / "other", {topic: topic}))
        return method(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, overtaken)
        with pytest.raises(DeliveryError, match=said) as caught:
            run(clusters, tmp_path / "one", {topic: topic})
    assert "run the migration again, which asks the target" in str(caught.value)
    assert counted(noida, topic) == VALUES
    summary = run(clusters, tmp_path / "one", {topic: topic})
    check(summary)
    assert (summary["messages"], summary["messages_found"]) == (0, 3)
    assert counted(noida, topic) == VALUES


def test_a_message_of_another_producer_in_between_is_an_error(
    clusters: Clusters, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    finish = Producer.finish

    def not_alone(producer: Producer) -> Any:
        librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"foreign", partition=0)])
        return finish(producer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Producer, "finish", not_alone)
        with pytest.raises(
            DeliveryError, match=r"4 came while 3 were sent, by .*let no other program write there meanwhile"
        ):
            run(clusters, tmp_path, {topic: topic})
    # Nothing of the piece is there, and it is not copied behind the other's message either.
    assert counted(noida, topic) == [b"foreign"]
    with pytest.raises(DeliveryError, match="number 0 is not the source's message"):
        run(clusters, tmp_path, {topic: topic})


def test_with_source_headers_others_may_write_all_the_time(
    corpus: EmbeddedCluster, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    servers, others = noida.bootstrap_servers, [Record(b"foreign", partition=0)]
    clusters = clusters_of(
        corpus.zookeeper_connect, servers, [topic], exactly_once=True, source_headers=True, fetchBytes=FETCH
    )
    finish = Producer.finish

    def not_alone(producer: Producer) -> Any:
        librdkafka.produce(servers, topic, others)
        librdkafka.abort(servers, topic, others)
        librdkafka.commit(servers, topic, others)
        return finish(producer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Producer, "finish", not_alone)
        with pytest.raises(Killed):
            run(clusters, tmp_path, {topic: topic}, PIECE_BYTES, unheard)
        check(run(clusters, tmp_path, {topic: topic}, PIECE_BYTES))
    assert [value for value in counted(noida, topic) if value != b"foreign"] == VALUES
    assert len(counted(noida, topic)) == 3 * len(VALUES)


def test_a_new_state_does_not_copy_a_second_time(
    clusters: Clusters, corpus: EmbeddedCluster, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    both = corpus.zookeeper_connect, noida.bootstrap_servers, [topic]
    check(run(clusters, tmp_path / "state", {topic: topic}))
    other = clusters_of(*both, exactly_once=True)
    with pytest.raises(
        OptionError, match=rf"^argument --state: {topic} 0 begins with the messages of {topic}"
    ):
        run(other, tmp_path / "new", {topic: topic})
    # By its name also where the messages are not there any more.
    librdkafka.delete_records(noida.bootstrap_servers, topic, 0, len(VALUES))
    with pytest.raises(OptionError, match=rf"{topic} 0 already, with this name of transactions: another"):
        run(clusters, tmp_path / "new", {topic: topic})


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (
            {},
            {"exactly_once": False},
            r"argument --exactly-once: the state .* begun with it; continue the same way, or give an empty "
            r"state directory",
        ),
        (
            {"exactly_once": False},
            {},
            r"argument --exactly-once: the state .* begun without it; continue the same way, or give an "
            r"empty state directory",
        ),
        ({"transactional_id": "a"}, {"transactional_id": "b"}, r"begun with 'a'; continue with that"),
    ],
)
def test_a_directory_goes_on_as_it_was_begun(
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    topic: str,
    tmp_path: Path,
    first: dict[str, Any],
    then: dict[str, Any],
    said: str,
) -> None:
    both = corpus.zookeeper_connect, noida.bootstrap_servers, [topic]
    begun = clusters_of(*both, **{"exactly_once": True, **first})
    with pytest.raises(Killed):
        run(begun, tmp_path, {topic: topic}, runner=killed_after(0))
    with pytest.raises(OptionError, match=said):
        run(clusters_of(*both, **{"exactly_once": True, **then}), tmp_path, {topic: topic})
    with pytest.raises(OptionError, match=said):
        describe(clusters_of(*both, **{"exactly_once": True, **then}), Settings(tmp_path, {topic: topic}))
