"""Whole migrations from recorded 0.7 partitions to noida-db, judged by librdkafka and the manifest."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import (
    BrokersMissingError,
    DataLossError,
    DeliveryError,
    DiscoveryError,
    KafkaWireError,
    OptionError,
    RowError,
)
from spark_kafkawire.jobs.migration.clusters import Clusters, source_options, target_options
from spark_kafkawire.jobs.migration.copying import Copier
from spark_kafkawire.jobs.migration.planning import plan
from spark_kafkawire.jobs.migration.report import check
from spark_kafkawire.jobs.migration.run import Settings, describe, migrate
from spark_kafkawire.jobs.migration.state import State, load_state
from spark_kafkawire.jobs.migration.verification import Verifier
from spark_kafkawire.jobs.shell.progress import Progress
from tests.support import librdkafka, replay
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.producing import ResponseFaults
from tests.support.zookeeper_tree import expired

from ..halfway import Halfway
from .migrating import (
    Killed,
    change_state,
    clusters_of,
    copied,
    killed_after,
    log_count,
    message_set,
    one_by_one,
    ports,
    read,
    run,
)

_NAMES: Final = itertools.count()


@pytest.fixture
def target() -> str:
    """A name that no other migration copies to."""
    return f"migrated-{next(_NAMES)}"


@pytest.fixture
def source(corpus: EmbeddedCluster) -> str:
    """A topic of six partitions that no other migration copies: 0-0 and 1-0 have messages, the others none.

    They are partitions 0 and 3 of a target.
    """
    topic = f"to-migrate-{next(_NAMES)}"
    for port in ports(corpus):
        replay.produce(port, (topic, 0), message_set(b"one", b"two", b"three"))
    # A broker registers a topic once it has stored its first message.
    poll(lambda: log_count(corpus, topic) == 6, "both brokers to register the topic")
    return topic


def test_logs_are_copied_in_order_to_partitions_of_their_own(
    corpus: EmbeddedCluster, noida: NoidaBroker, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [GZIP_TOPIC])
    summary = run(clusters, tmp_path, {GZIP_TOPIC: target}, piece_bytes=1 << 20)
    check(summary)
    assert copied(noida, target) == recorded()
    assert (summary["logs"], summary["messages"], summary["failed"]) == (6, 15917, [])
    assert [each["source"] for each in summary["partitions"]] == [
        f"{GZIP_TOPIC} {broker}-{partition}" for broker in (0, 1) for partition in range(3)
    ]

    again = run(clusters, tmp_path, {GZIP_TOPIC: target})
    assert (again["logs"], again["messages"]) == (0, 0)
    assert copied(noida, target) == recorded()


@pytest.mark.parametrize("source_headers", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_run_that_was_killed_is_gone_on_with(
    corpus: EmbeddedCluster, noida: NoidaBroker, target: str, tmp_path: Path, source_headers: bool
) -> None:
    clusters = clusters_of(
        corpus.zookeeper_connect, noida.bootstrap_servers, [GZIP_TOPIC], source_headers=source_headers
    )
    for count in (1, 8, 9):
        with pytest.raises(Killed):
            run(clusters, tmp_path, {GZIP_TOPIC: target}, 40_000, killed_after(count))
    with pytest.raises(Killed):
        run(clusters, tmp_path, {GZIP_TOPIC: target}, 1 << 20, killed_after(3, Verifier))
    summary = run(clusters, tmp_path, {GZIP_TOPIC: target}, 40_000)
    check(summary)
    assert copied(noida, target) == recorded()
    assert sum(each["messages"] for each in summary["partitions"]) == 15917


def test_messages_are_counted_while_tasks_copy_them(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    halfway = Halfway(6)

    def pausing(function: Any, tasks: Sequence[Any]) -> list[Any]:
        first, *others = tasks
        result = function(first)
        if isinstance(function, Copier):
            poll(lambda: halfway.shown, "the messages of the first task to be shown")
        return [result, *map(function, others)]

    settings = Settings(tmp_path, {source: target}, create_topics=True)
    assert migrate(clusters, settings, pausing, Progress(halfway))["messages"] == 6
    assert halfway.shown[0][0] == 3


def test_what_a_killed_task_appended_is_found(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(Killed):
        run(clusters, tmp_path, {source: target}, runner=killed_after(1))
    assert read(noida, target) == [b"one", b"two", b"three"]
    summary = run(clusters, tmp_path, {source: target})
    assert (summary["messages"], summary["messages_found"]) == (3, 3)
    assert [read(noida, target, partition) for partition in (0, 3)] == [[b"one", b"two", b"three"]] * 2


def test_a_failure_in_the_middle_says_that_running_again_is_safe(
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    source: str,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters = Clusters(
        source_options({"zookeeper.connect": corpus.zookeeper_connect}, {"subscribe": source}),
        *target_options({"kafka.bootstrap.servers": noida.bootstrap_servers, "retries": "0"}),
    )
    with monkeypatch.context() as patched:
        ResponseFaults(patched).plan.append("lost")
        with pytest.raises(DeliveryError) as caught:
            run(clusters, tmp_path, {source: target})
    assert "each of the others may be there or missing; run the migration again: it finds" in str(
        caught.value
    )
    assert "Spark" not in str(caught.value)
    summary = run(clusters, tmp_path, {source: target})
    assert (summary["messages"], summary["messages_found"]) == (3, 3)
    assert [read(noida, target, partition) for partition in (0, 3)] == [[b"one", b"two", b"three"]] * 2


def test_a_later_run_copies_what_came_since(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    run(clusters, tmp_path, {source: target})
    # Others may write to the target between the runs.
    librdkafka.produce(noida.bootstrap_servers, target, [Record(b"foreign", partition=3)])
    replay.produce(ports(corpus)[1], (source, 0), message_set(b"four"))
    summary = run(clusters, tmp_path, {source: target})
    assert [(each["source"], each["messages"]) for each in summary["partitions"]] == [(f"{source} 1-0", 1)]
    assert read(noida, target, 3) == [b"one", b"two", b"three", b"foreign", b"four"]


def test_a_partition_that_was_copied_is_not_passed_over_in_silence(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source], retries="1")
    run(clusters, tmp_path, {source: target})
    replay.produce(ports(corpus)[0], (source, 0), message_set(b"four"))
    replay.produce(ports(corpus)[1], (source, 0), message_set(b"five"))
    lost = [f"{source} 1-0 is not there: it was read up to 41"]
    lost += [f"{source} 1-{number} is not there: it was read up to 0" for number in (1, 2)]
    with expired(corpus.zookeeper_connect, 1):
        with pytest.raises(BrokersMissingError, match=r"broker 1 is not registered .*, give --gone-broker$"):
            run(clusters, tmp_path, {source: target})
        bearing = clusters_of(
            corpus.zookeeper_connect, noida.bootstrap_servers, [source], retries="1", failOnDataLoss="false"
        )
        with pytest.raises(
            DiscoveryError, match=rf"^{source} 1-0, .* no broker has it now; start its broker"
        ):
            run(bearing, tmp_path, {source: target})
        assert read(noida, target) == [b"one", b"two", b"three"]
        summary = run(clusters, tmp_path, {source: target}, gone_brokers=frozenset((1,)))
        assert (summary["messages"], summary["data_loss"]) == (1, lost)
    assert read(noida, target) == [b"one", b"two", b"three", b"four"]
    summary = run(clusters, tmp_path, {source: target}, gone_brokers=frozenset((1,)))
    assert (summary["messages"], summary["data_loss"]) == (1, [])
    assert read(noida, target, 3) == [b"one", b"two", b"three", b"five"]


@pytest.mark.parametrize("source_headers", [False, True])
def test_an_older_copy_of_the_state_directory_doubles_nothing(
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    source: str,
    target: str,
    tmp_path: Path,
    source_headers: bool,
) -> None:
    clusters = clusters_of(
        corpus.zookeeper_connect, noida.bootstrap_servers, [source], source_headers=source_headers
    )
    state, copy = tmp_path / "state", tmp_path / "copy"
    run(clusters, state, {source: target})
    shutil.copytree(state, copy)
    replay.produce(ports(corpus)[1], (source, 0), message_set(b"four"))
    run(clusters, state, {source: target})
    replay.produce(ports(corpus)[1], (source, 0), message_set(b"five"))
    summary = run(clusters, copy, {source: target})
    check(summary)
    assert (summary["messages"], summary["messages_found"]) == (1, 1)
    assert read(noida, target, 3) == [b"one", b"two", b"three", b"four", b"five"]


@pytest.mark.parametrize("source_headers", [False, True])
def test_a_new_state_directory_does_not_copy_a_second_time(
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    source: str,
    target: str,
    tmp_path: Path,
    source_headers: bool,
) -> None:
    clusters = clusters_of(
        corpus.zookeeper_connect, noida.bootstrap_servers, [source], source_headers=source_headers
    )
    run(clusters, tmp_path / "first", {source: target})
    with pytest.raises(OptionError) as caught:
        run(clusters, tmp_path / "second", {source: target})
    assert str(caught.value) == (
        f"argument --state: {target} 0 begins with the messages of {source} 0-0 already: another --state "
        "copied it: continue with that one, or copy to a new topic with --map; otherwise all messages would "
        "be there twice"
    )
    assert read(noida, target, 3) == [b"one", b"two", b"three"]


def interrupted_by_another(
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    source: str,
    target: str,
    state: Path,
    *,
    source_headers: bool = False,
) -> Clusters:
    """A run that was killed after its first piece, and a record of somebody else after that piece."""
    clusters = clusters_of(
        corpus.zookeeper_connect, noida.bootstrap_servers, [source], source_headers=source_headers
    )
    with pytest.raises(Killed):
        run(clusters, state, {source: target}, runner=killed_after(1))
    librdkafka.produce(noida.bootstrap_servers, target, [Record(b"foreign", partition=0)])
    return clusters


def test_a_message_of_another_producer_in_between_is_an_error(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = interrupted_by_another(corpus, noida, source, target, tmp_path)
    with pytest.raises(DeliveryError) as caught:
        run(clusters, tmp_path, {source: target})
    assert str(caught.value) == (
        f"{target} 0 holds messages from offset 0 on that are not {source} 0-0's from offset 0 on (3 of them "
        "are the source's); let no other program write there meanwhile, or start again with --source-headers"
    )


def test_with_source_headers_messages_of_other_producers_are_passed_over(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = interrupted_by_another(corpus, noida, source, target, tmp_path, source_headers=True)
    replay.produce(ports(corpus)[0], (source, 0), message_set(b"four"))
    summary = run(clusters, tmp_path, {source: target})
    check(summary)
    assert read(noida, target) == [b"one", b"two", b"three", b"foreign", b"four"]
    [last] = [
        record for record in librdkafka.consume(noida.bootstrap_servers, target) if record.value == b"four"
    ]
    assert [key for key, _ in last.headers] == [
        f"source.{name}" for name in ("topic", "broker", "partition", "offset", "index")
    ]


def test_a_copy_that_is_not_equal_fails_the_verification(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(Killed):
        run(clusters, tmp_path, {source: target}, runner=killed_after(0, Verifier))
    change_state(tmp_path, lambda partitions: partitions[3]["verified"].__setitem__(1, 1))
    for _ in range(2):
        summary = run(clusters, tmp_path, {source: target})
        assert summary["failed"] == [f"{source} 1-0"]
        with pytest.raises(
            DeliveryError, match=f"1 of . partitions: {source} 1-0 has 3 messages .* has 2 messages"
        ):
            check(summary)


@pytest.mark.parametrize("copied_to", [1, 100])
def test_a_shortened_copy_is_an_error(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path, copied_to: int
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(Killed):
        run(clusters, tmp_path, {source: target}, runner=killed_after(0))
    change_state(tmp_path, lambda partitions: partitions[0]["copied"].__setitem__(1, copied_to))
    with pytest.raises(
        DeliveryError, match=f"{target} 0 ends at 0 and was copied to up to {copied_to}: it lost records"
    ):
        run(clusters, tmp_path, {source: target})


@pytest.mark.parametrize(("gone", "failed"), [(1, 0), (2, 1)])
def test_what_retention_deleted_after_it_was_copied_is_counted_and_the_rest_compared(
    corpus: EmbeddedCluster,
    noida: NoidaBroker,
    source: str,
    target: str,
    tmp_path: Path,
    gone: int,
    failed: int,
) -> None:
    noida.create_topic(6, target)
    librdkafka.produce(noida.bootstrap_servers, target, [Record(b"zero", partition=0)])
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(Killed):
        run(clusters, tmp_path, {source: target}, runner=killed_after(0, Verifier))
    # As if the log had begun before offset 0, which is its first now.
    size = len(message_set(b"one", b"two", b"three"))
    change_state(
        tmp_path, lambda partitions: partitions[0].update(verified=[-50, 0, 0], copied=[size, 4, 3 + gone])
    )
    summary = run(clusters, tmp_path, {source: target})
    verified = summary["partitions"][0]
    assert (verified["messages"], verified["deleted_since"]) == (3 + gone, gone)
    assert len(summary["failed"]) == failed
    again = run(clusters, tmp_path, {source: target})
    assert len(again["partitions"]) == failed


def test_a_source_that_lost_what_was_not_copied_is_a_data_loss(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    run(clusters, tmp_path, {source: target})
    change_state(tmp_path, lambda partitions: partitions[0].update(copied=[-50, 3, 3], verified=[-50, 3, 3]))
    with pytest.raises(DataLossError, match=f"^{source} 0-0: 50 bytes from offset -50 on were deleted"):
        run(clusters, tmp_path, {source: target})
    lossy = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source], failOnDataLoss="false")
    assert describe(lossy, Settings(tmp_path, {source: target}))["data_loss"] == [f"{source} 0-0: 50 bytes"]
    change_state(tmp_path, lambda partitions: partitions[0].__setitem__("open", True))
    with pytest.raises(DataLossError, match="begin with an empty state directory"):
        run(lossy, tmp_path, {source: target})


def test_a_partition_that_is_shorter_than_its_copy_is_another_one(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    run(clusters, tmp_path, {source: target})
    change_state(tmp_path, lambda partitions: partitions[0]["copied"].__setitem__(0, 9999))
    with pytest.raises(DataLossError, match=f"^{source} 0-0 ends at [0-9]+ and was copied up to 9999"):
        run(clusters, tmp_path, {source: target})


def test_a_plan_tells_and_does_nothing(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    state = tmp_path / "state"
    reported = describe(clusters, Settings(state, {source: target}, create_topics=True))
    size = len(message_set(b"one", b"two", b"three"))
    assert (reported["logs"], reported["bytes"], reported["topics_to_create"]) == (6, 2 * size, {target: 6})
    assert reported["partitions"][3] == {
        "source": f"{source} 1-0",
        "target": f"{target} 3",
        "start_offset": 0,
        "stop_offset": size,
        "bytes": size,
    }
    assert not state.exists()
    with pytest.raises(
        OptionError, match=f"topic '{target}' .* --create-topics creates it with 6 partitions"
    ):
        describe(clusters, Settings(state, {source: target}))


def test_a_topic_with_too_few_partitions_is_refused(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, tmp_path: Path
) -> None:
    narrow = noida.create_topic(partitions=1)
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(OptionError, match=f"'{narrow}' of the target has 1 partition, and 6 partitions are"):
        run(clusters, tmp_path, {source: narrow})


def test_a_name_that_modern_brokers_refuse_needs_another_one(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(OptionError, match=r"topic 'no good' of the target: .* by --map"):
        run(clusters, tmp_path, {source: "no good"})


def test_a_message_that_the_target_cannot_store_is_named(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    clusters = Clusters(
        source_options({"zookeeper.connect": corpus.zookeeper_connect}, {"subscribe": source}),
        *target_options({"kafka.bootstrap.servers": noida.bootstrap_servers, "kafka.max.request.size": "91"}),
    )
    with pytest.raises(
        RowError, match=f"^{source} 0-0 from offset 0 on: row 2: .* kafka.max.request.size=91"
    ):
        run(clusters, tmp_path, {source: target})


def test_source_headers_cannot_be_switched_in_between(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    plain, marked = (
        clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source], source_headers=headers)
        for headers in (False, True)
    )
    run(plain, tmp_path, {source: target})
    with pytest.raises(OptionError, match="begun without it"):
        run(marked, tmp_path, {source: target})


def test_all_topics_that_a_pattern_finds_are_copied(corpus: EmbeddedCluster, noida: NoidaBroker) -> None:
    source = source_options(
        {"zookeeper.connect": corpus.zookeeper_connect}, {"subscribePattern": "^debian-(gzip|plain)$"}
    )
    target = target_options({"kafka.bootstrap.servers": noida.bootstrap_servers})
    copies, _ = plan(Clusters(source, *target), {GZIP_TOPIC: "gz"}, State(source_headers=False))
    assert [str(copy.route.target) for copy in copies] == [
        f"{topic} {number}" for topic in ("gz", "debian-plain") for number in range(6)
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("subscribe", "t"), ("startingOffsets", "earliest"), ("endingTimestamp", "1"), ("minPartitions", "3")],
)
def test_options_that_a_migration_sets_itself_are_refused_for_the_source(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"argument --source-option: {name} is not for a migration"):
        source_options({"zookeeper.connect": "z:1", name: value}, {"subscribe": "t"})


@pytest.mark.parametrize(
    "name",
    [
        "topic",
        "acks",
        "kafka.acks",
        "kafka.enable.idempotence",
        "partitioner",
        "kafka.partitioner.ignore.keys",
    ],
)
def test_options_that_a_migration_sets_itself_are_refused_for_the_target(name: str) -> None:
    with pytest.raises(OptionError, match=f"argument --target-option: {name} is not for a migration"):
        target_options({"kafka.bootstrap.servers": "k:1", name: "1"})


def test_the_source_is_old_and_the_target_is_not() -> None:
    with pytest.raises(OptionError, match=r"the source is a cluster of Kafka 0\.7"):
        source_options({"kafka.bootstrap.servers": "k:1"}, {"subscribe": "t"})
    with pytest.raises(OptionError, match=r"the target is a cluster of Kafka 0\.8"):
        target_options({"zookeeper.connect": "z:1"})


def test_a_damaged_state_stops_a_run_before_anything_is_done(
    corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / "migration-1.json").write_text("{")
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [source])
    with pytest.raises(KafkaWireError, match="is not the state of a migration"):
        run(clusters, tmp_path, {source: target}, runner=one_by_one)
    assert load_state(tmp_path / "elsewhere") is None
