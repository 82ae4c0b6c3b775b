"""Whole migrations from recorded 0.7 partitions to noida-db, judged by librdkafka and the manifest; those in
transactions; and the command line."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import (
    BrokersMissingError,
    DataLossError,
    DeliveryError,
    DiscoveryError,
    KafkaWireError,
    OptionError,
    RowError,
)
from spark_kafkawire.jobs.migration.clusters import (
    Clusters,
    source_options,
    target_options,
)
from spark_kafkawire.jobs.migration.copying import Copier, Verifier
from spark_kafkawire.jobs.migration.run import Settings, check, describe, migrate, plan
from spark_kafkawire.jobs.migration.state import State, load_state
from spark_kafkawire.options import NetOptions, WriteOptions
from tests.support import librdkafka, replay
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.foreign import Record
from tests.support.golden import CORPUS
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.producing import ResponseFaults
from tests.support.zookeeper_tree import expired

from ..submitting import RunHere
from ..work import Halfway
from .migrating import (
    FETCH,
    PIECE_BYTES,
    VALUES,
    Killed,
    change_state,
    clusters_of,
    copied,
    killed_after,
    log_count,
    message_set,
    one_by_one,
    pieces_to_copy,
    ports,
    read,
    run,
    unheard,
    without_comparing,
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


@dataclass
class Copying:
    """A migration of the topic ``source`` to ``target``, whose messages are those of partitions 0 and 3."""

    corpus: EmbeddedCluster
    noida: NoidaBroker
    source: str
    target: str
    state: Path
    options: dict[str, Any] = field(default_factory=dict)
    #: What all runs have in common whose transactions have one name.
    made: Clusters | None = None

    @property
    def names(self) -> dict[str, str]:
        return {self.source: self.target}

    def clusters(self, **options: Any) -> Clusters:
        """Both, with these options and the migration's own."""
        both = self.corpus.zookeeper_connect, self.noida.bootstrap_servers
        return clusters_of(*both, [self.source], **{**self.options, **options})

    def hand_made(self, **target: str) -> Clusters:
        """Both with other options of the target."""
        source = source_options(
            {"zookeeper.connect": self.corpus.zookeeper_connect}, {"subscribe": self.source}
        )
        return Clusters(
            source, *target_options({"kafka.bootstrap.servers": self.noida.bootstrap_servers, **target})
        )

    def run(
        self, *, clusters: Clusters | None = None, state: Path | None = None, **more: Any
    ) -> dict[str, Any]:
        """One run to its end; the summary."""
        return run(clusters or self.made or self.clusters(), state or self.state, self.names, **more)

    def killed_after(self, count: int, kind: type[Any] = Copier) -> None:
        """A run that is killed after so many tasks of a kind."""
        with pytest.raises(Killed):
            self.run(runner=killed_after(count, kind))

    def produce(self, broker: int, *values: bytes) -> None:
        """Append messages to partition 0 of a broker of the source."""
        replay.produce(ports(self.corpus)[broker], (self.source, 0), message_set(*values))

    def produce_foreign(self, partition: int) -> None:
        """Append a message of another producer to the target."""
        librdkafka.produce(
            self.noida.bootstrap_servers, self.target, [Record(b"foreign", partition=partition)]
        )

    def read(self, partition: int = 0) -> list[bytes]:
        """The values in a partition of the target, as far as they are committed."""
        return read(self.noida, self.target, partition, "read_committed")


@pytest.fixture
def copying(corpus: EmbeddedCluster, noida: NoidaBroker, source: str, target: str, tmp_path: Path) -> Copying:
    return Copying(corpus, noida, source, target, tmp_path)


@pytest.fixture
def pieces(corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path) -> Copying:
    """A migration in transactions: of three pieces in one partition."""
    topic, options = pieces_to_copy(corpus), {"exactly_once": True, "fetchBytes": FETCH}
    copying = Copying(corpus, noida, topic, topic, tmp_path / "state", options)
    copying.made = copying.clusters()
    return copying


def test_logs_are_copied_in_order_to_partitions_of_their_own(
    corpus: EmbeddedCluster, noida: NoidaBroker, target: str, tmp_path: Path
) -> None:
    clusters = clusters_of(corpus.zookeeper_connect, noida.bootstrap_servers, [GZIP_TOPIC])
    summary = run(clusters, tmp_path, {GZIP_TOPIC: target}, piece_bytes=1 << 20)
    check(summary)
    assert copied(noida, target) == recorded()
    assert (summary["logs"], summary["messages"], summary["failed"]) == (6, 15917, [])
    assert [item["source"] for item in summary["partitions"]] == [
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
    assert sum(item["messages"] for item in summary["partitions"]) == 15917


def test_messages_are_counted_while_tasks_copy_them(copying: Copying) -> None:
    halfway = Halfway(6)

    def pausing(function: Any, tasks: Sequence[Any]) -> list[Any]:
        first, *others = tasks
        result = function(first)
        if isinstance(function, Copier):
            poll(lambda: halfway.shown, "the messages of the first task to be shown")
        return [result, *map(function, others)]

    settings = Settings(state=copying.state, names=copying.names, create_topics=True)
    assert migrate(copying.clusters(), settings, pausing, halfway)["messages"] == 6
    assert halfway.shown[0][0] == 3


def test_what_a_killed_task_appended_is_found(copying: Copying) -> None:
    copying.killed_after(1)
    assert copying.read() == [b"one", b"two", b"three"]
    summary = copying.run()
    assert (summary["messages"], summary["messages_found"]) == (3, 3)
    assert [copying.read(partition) for partition in (0, 3)] == [[b"one", b"two", b"three"]] * 2


def test_a_failure_in_the_middle_says_that_running_again_is_safe(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = copying.hand_made(retries="0")
    with monkeypatch.context() as patched:
        ResponseFaults(patched).plan.append("lost")
        with pytest.raises(DeliveryError) as caught:
            copying.run(clusters=clusters)
    assert "delivery=exactly-once; run the migration again: it finds" in str(caught.value)
    assert "Spark" not in str(caught.value)
    summary = copying.run(clusters=clusters)
    assert (summary["messages"], summary["messages_found"]) == (3, 3)
    assert [copying.read(partition) for partition in (0, 3)] == [[b"one", b"two", b"three"]] * 2


def test_a_later_run_copies_what_came_since(copying: Copying) -> None:
    copying.run()
    # Others may write to the target between the runs.
    copying.produce_foreign(3)
    copying.produce(1, b"four")
    summary = copying.run()
    assert [
        item["messages"] for item in summary["partitions"] if item["source"] == f"{copying.source} 1-0"
    ] == [1]
    assert len(summary["partitions"]) == 1
    assert copying.read(3) == [b"one", b"two", b"three", b"foreign", b"four"]


def test_report_a_missing_partition_that_was_copied(copying: Copying) -> None:
    copying.options["retries"] = "1"
    copying.run()
    copying.produce(0, b"four")
    copying.produce(1, b"five")
    lost = [f"{copying.source} 1-0 is not there: it was read up to 41"]
    lost += [f"{copying.source} 1-{number} is not there: it was read up to 0" for number in (1, 2)]
    with expired(copying.corpus.zookeeper_connect, 1):
        with pytest.raises(BrokersMissingError, match=r"broker 1 is not registered .*, give --gone-broker$"):
            copying.run()
        bearing = copying.clusters(failOnDataLoss="false")
        with pytest.raises(
            DiscoveryError, match=rf"^{copying.source} 1-0, .* no broker has it now; start its broker"
        ):
            copying.run(clusters=bearing)
        assert copying.read() == [b"one", b"two", b"three"]
        summary = copying.run(gone_brokers=frozenset((1,)))
        assert (summary["messages"], summary["data_loss"]) == (1, lost)
    assert copying.read() == [b"one", b"two", b"three", b"four"]
    summary = copying.run(gone_brokers=frozenset((1,)))
    assert (summary["messages"], summary["data_loss"]) == (1, [])
    assert copying.read(3) == [b"one", b"two", b"three", b"five"]


@pytest.mark.parametrize("source_headers", [False, True])
def test_an_older_copy_of_the_state_directory_doubles_nothing(copying: Copying, source_headers: bool) -> None:
    copying.options["source_headers"] = source_headers
    state, copy = copying.state / "state", copying.state / "copy"
    copying.run(state=state)
    shutil.copytree(state, copy)
    copying.produce(1, b"four")
    copying.run(state=state)
    copying.produce(1, b"five")
    summary = copying.run(state=copy)
    check(summary)
    assert (summary["messages"], summary["messages_found"]) == (1, 1)
    assert copying.read(3) == [b"one", b"two", b"three", b"four", b"five"]


@pytest.mark.parametrize("source_headers", [False, True])
def test_a_new_state_directory_does_not_copy_a_second_time(copying: Copying, source_headers: bool) -> None:
    copying.options["source_headers"] = source_headers
    copying.run(state=copying.state / "first")
    with pytest.raises(OptionError) as caught:
        copying.run(state=copying.state / "second")
    assert str(caught.value) == (
        f"argument --state: {copying.target} 0 begins with the messages of {copying.source} 0-0 already: "
        "another --state copied it: continue with that one, or copy to a new topic with --map; otherwise all "
        "messages would be there twice"
    )
    assert copying.read(3) == [b"one", b"two", b"three"]


def test_a_message_of_another_producer_in_between_is_an_error(copying: Copying) -> None:
    copying.killed_after(1)
    copying.produce_foreign(0)
    with pytest.raises(DeliveryError) as caught:
        copying.run()
    assert str(caught.value) == (
        f"{copying.target} 0 holds messages from offset 0 on that are not {copying.source} 0-0's from "
        "offset 0 on (3 of them are the source's); let no other program write there meanwhile, or start "
        "again with --source-headers"
    )


def test_with_source_headers_messages_of_other_producers_are_passed_over(copying: Copying) -> None:
    copying.options["source_headers"] = True
    copying.killed_after(1)
    copying.produce_foreign(0)
    copying.produce(0, b"four")
    summary = copying.run()
    check(summary)
    assert copying.read() == [b"one", b"two", b"three", b"foreign", b"four"]
    [last] = [
        item
        for item in librdkafka.consume(copying.noida.bootstrap_servers, copying.target)
        if item.value == b"four"
    ]
    assert [key for key, _ in last.headers] == [
        f"source.{name}" for name in ("topic", "broker", "partition", "offset", "index")
    ]


def test_a_copy_that_is_not_equal_fails_the_verification(copying: Copying) -> None:
    copying.killed_after(0, Verifier)
    change_state(copying.state, lambda partitions: partitions[3]["verified"].__setitem__(1, 1))
    for _ in range(2):
        summary = copying.run()
        assert summary["failed"] == [f"{copying.source} 1-0"]
        with pytest.raises(
            DeliveryError, match=f"1 of . partitions: {copying.source} 1-0 has 3 messages .* has 2 messages"
        ):
            check(summary)


def test_a_shortened_copy_or_source_is_an_error(copying: Copying) -> None:
    def end_at(offset: int, logs: list[Any]) -> None:
        logs[0]["copied"][1] = offset

    copying.killed_after(0)
    for copied_to in (1, 100):
        change_state(copying.state, partial(end_at, copied_to))
        said = f"{copying.target} 0 ends at 0 and was copied to up to {copied_to}: it lost records"
        with pytest.raises(DeliveryError, match=said):
            copying.run()
    change_state(copying.state, lambda logs: logs[0].update(copied=[9999, 0, 0]))
    with pytest.raises(
        DataLossError, match=f"^{copying.source} 0-0 ends at [0-9]+ and was copied up to 9999"
    ):
        copying.run()


@pytest.mark.parametrize(("gone", "failed"), [(1, 0), (2, 1)])
def test_what_retention_deleted_after_it_was_copied_is_counted_and_the_rest_compared(
    copying: Copying, gone: int, failed: int
) -> None:
    copying.noida.create_topic(6, copying.target)
    copying.produce_foreign(0)
    copying.killed_after(0, Verifier)
    # As if the log had begun before offset 0, which is its first now.
    size = len(message_set(b"one", b"two", b"three"))
    change_state(
        copying.state,
        lambda partitions: partitions[0].update(verified=[-50, 0, 0], copied=[size, 4, 3 + gone]),
    )
    summary = copying.run()
    verified = summary["partitions"][0]
    assert (verified["messages"], verified["deleted_since"]) == (3 + gone, gone)
    assert len(summary["failed"]) == failed
    again = copying.run()
    assert len(again["partitions"]) == failed


def test_a_source_that_lost_what_was_not_copied_is_a_data_loss(copying: Copying) -> None:
    copying.run()
    change_state(
        copying.state, lambda partitions: partitions[0].update(copied=[-50, 3, 3], verified=[-50, 3, 3])
    )
    with pytest.raises(
        DataLossError, match=f"^{copying.source} 0-0: 50 bytes from offset -50 on were deleted"
    ):
        copying.run()
    lossy = copying.clusters(failOnDataLoss="false")
    assert describe(lossy, Settings(state=copying.state, names=copying.names))["data_loss"] == [
        f"{copying.source} 0-0: 50 bytes"
    ]
    change_state(copying.state, lambda partitions: partitions[0].__setitem__("open", True))
    with pytest.raises(DataLossError, match="begin with an empty state directory"):
        copying.run(clusters=lossy)


def test_a_plan_tells_and_does_nothing(copying: Copying) -> None:
    clusters, state = copying.clusters(), copying.state / "state"
    reported = describe(clusters, Settings(state=state, names=copying.names, create_topics=True))
    size = len(message_set(b"one", b"two", b"three"))
    assert (reported["logs"], reported["bytes"], reported["topics_to_create"]) == (
        6,
        2 * size,
        {copying.target: 6},
    )
    assert reported["partitions"][3] == {
        "source": f"{copying.source} 1-0",
        "target": f"{copying.target} 3",
        "start_offset": 0,
        "stop_offset": size,
        "bytes": size,
    }
    assert not state.exists()
    with pytest.raises(
        OptionError, match=f"topic '{copying.target}' .* --create-topics does so with 6 partitions"
    ):
        describe(clusters, Settings(state=state, names=copying.names))


def test_what_a_run_cannot_begin_with_is_refused(copying: Copying) -> None:
    """A target that cannot hold the topic, headers that are switched in between, a state that is damaged."""
    narrow = copying.noida.create_topic(partitions=1)
    for name, said in (
        (narrow, f"'{narrow}' of the target has 1 partition, and 6 partitions are"),
        ("no good", r"topic 'no good' of the target: .* by --map"),
    ):
        with pytest.raises(OptionError, match=said):
            run(copying.clusters(), copying.state / "other", {copying.source: name})
    copying.run()
    with pytest.raises(OptionError, match="begun without it"):
        copying.run(clusters=copying.clusters(source_headers=True))
    damaged = copying.state / "damaged"
    damaged.mkdir()
    (damaged / "migration-1.json").write_text("{")
    with pytest.raises(KafkaWireError, match="is not the state of a migration"):
        copying.run(state=damaged)
    assert load_state(copying.state / "elsewhere") is None


def test_a_message_that_the_target_cannot_store_is_named(copying: Copying) -> None:
    clusters = copying.hand_made(**{"kafka.max.request.size": "91"})
    with pytest.raises(
        RowError, match=f"^{copying.source} 0-0 from offset 0 on: row 2: .* kafka.max.request.size=91"
    ):
        copying.run(clusters=clusters)


def test_all_topics_that_a_pattern_finds_are_copied(corpus: EmbeddedCluster, noida: NoidaBroker) -> None:
    source = source_options(
        {"zookeeper.connect": corpus.zookeeper_connect}, {"subscribePattern": "^debian-(gzip|plain)$"}
    )
    target = target_options({"kafka.bootstrap.servers": noida.bootstrap_servers})
    copies, _ = plan(Clusters(source, *target), {GZIP_TOPIC: "gz"}, State(source_headers=False))
    assert [str(copy.route.target) for copy in copies] == [
        f"{topic} {number}" for topic in ("gz", "debian-plain") for number in range(6)
    ]


@pytest.fixture
def both(corpus: EmbeddedCluster, noida: NoidaBroker) -> list[str]:
    """The arguments that name both clusters."""
    return [
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
    ]


def test_topics_are_planned_copied_and_verified(
    run_here: RunHere, both: list[str], corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = pieces_to_copy(corpus)
    target, size = f"copied-{topic}", sum(len(value) + 10 for value in VALUES)
    arguments = [*both, "--topic", topic, "--map", f"{topic}={target}", "--state", f"{tmp_path}/state"]
    code, out, _ = run_here("migrate", *arguments, "--create-topics", "--dry-run", "--json")
    reported = json.loads(out)
    assert (code, reported["bytes"], reported["topics_to_create"]) == (0, size, {target: 3})

    code, out, _ = run_here("migrate", *arguments, "--create-topics", "--json")
    summary = json.loads(out)
    assert (code, summary["messages"], summary["bytes"], summary["failed"]) == (0, len(VALUES), size, [])
    assert read(noida, target) == VALUES

    def forget_one(logs: list[dict[str, object]]) -> None:
        logs[0].update(open=True, verified=[0, 1, 0])

    change_state(tmp_path / "state", forget_one)
    code, out, err = run_here("migrate", *arguments, "--quiet")
    assert code == 1
    [line] = out.splitlines()[:1]
    assert line.startswith(f"{topic} 0-0  ->  {target} 0")
    assert "NOT EQUAL" in line
    assert f"migrate: verification failed for 1 of 1 partitions: {topic} 0-0 has" in err


def test_pieces_are_copied_in_transactions_that_the_user_names(
    run_here: RunHere, both: list[str], corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = pieces_to_copy(corpus)
    arguments = [*both, "--topic", topic, "--state", f"{tmp_path}/state", "--create-topics", "--json"]
    named = ["--exactly-once", "--transactional-id", f"name-{topic}"]
    code, out, err = run_here("migrate", *arguments, *named)
    assert code == 0, err
    assert json.loads(out)["messages"] == len(VALUES)
    assert read(noida, topic, isolation_level="read_committed") == VALUES
    # Its marker is behind them.
    assert librdkafka.offsets(noida.bootstrap_servers, topic)[1] == len(VALUES) + 1
    listed = Transactions(*connection(noida)).listed()
    assert f"name-{topic}-{topic}-0-log" in {item.transactional_id for item in listed}

    code, out, err = run_here("migrate", *arguments)
    assert (code, out) == (2, "")
    assert (
        "argument --exactly-once: the state directory was begun with it; continue the same way, or give an "
        "empty state directory" in err
    )


def connection(noida: NoidaBroker) -> tuple[Metadata, NetOptions]:
    """Whom to ask about transactions."""
    options = WriteOptions.parse({"kafka.bootstrap.servers": noida.bootstrap_servers})
    return Metadata(options.discovery.bootstrap_servers, options.net), options.net


def test_a_dead_cluster_migrates_to_a_live_one(run_here: RunHere, noida: NoidaBroker, tmp_path: Path) -> None:
    paths = [shutil.copytree(CORPUS / name, tmp_path / name) for name in ("broker0", "broker1")]
    # A broker that was killed while it wrote.
    torn = paths[0] / f"{GZIP_TOPIC}-0" / "00000000000000000000.kafka"
    whole = torn.read_bytes()
    torn.write_bytes(whole + whole[:100])
    arguments = [
        f"--source-option=paths={json.dumps([str(path) for path in paths])}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--topic", GZIP_TOPIC, "--map", f"{GZIP_TOPIC}=of-a-dead-cluster"),
        *("--state", f"{tmp_path}/state", "--create-topics", "--json"),
    ]
    code, out, _ = run_here("migrate", *arguments)
    summary = json.loads(out)
    messages = sum(count for count, _ in recorded())
    size = sum(item["log_bytes"] for item in partitions_of())
    assert (code, summary["messages"], summary["bytes"], summary["failed"]) == (0, messages, size, [])
    ends = [librdkafka.offsets(noida.bootstrap_servers, "of-a-dead-cluster", item)[1] for item in range(6)]
    assert sum(ends) == messages
    code, out, _ = run_here("migrate", *arguments)
    assert (code, json.loads(out)["messages"]) == (0, 0)


def twice(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs each task a second time, as Spark does where it has lost the first result."""
    one_by_one(function, tasks)
    return one_by_one(function, tasks)


def counts(summary: dict[str, Any]) -> tuple[int, int]:
    """Of messages that the run copied and that it found."""
    check(summary)
    return summary["messages"], summary["messages_found"]


def test_find_what_a_task_committed_without_an_answer(
    pieces: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is compared, with an older copy of the state neither."""
    without_comparing(monkeypatch)
    with pytest.raises(Killed):
        pieces.run(runner=unheard)
    assert pieces.read() == VALUES
    assert counts(pieces.run()) == (0, 3)
    older = shutil.copytree(pieces.state, pieces.state.with_name("older"))
    pieces.produce(0, b"four")
    pieces.run()
    assert counts(pieces.run(state=older)) == (0, 1)
    assert pieces.read() == [*VALUES, b"four"]
    pieces.target += "-twice"
    check(pieces.run(state=pieces.state.with_name("twice"), piece_bytes=PIECE_BYTES, runner=twice))
    assert pieces.read() == [*VALUES, b"four"]


def test_where_brokers_have_forgotten_how_far_a_partition_is_what_is_there_is_compared(
    pieces: Copying,
) -> None:
    """As they do after seven days."""
    with pytest.raises(Killed):
        pieces.run(piece_bytes=PIECE_BYTES, runner=unheard)
    assert pieces.read() == VALUES[:1]
    known = load_state(pieces.state)
    assert known is not None
    group = f"{known.transactional_id}-{pieces.target}-0-log"
    librdkafka.delete_group(pieces.noida.bootstrap_servers, group)
    assert counts(pieces.run(piece_bytes=PIECE_BYTES)) == (2, 1)
    assert pieces.read() == VALUES


def test_a_later_run_copies_in_transactions_what_came_since_and_a_new_state_nothing(pieces: Copying) -> None:
    """Others may write to the target between the runs, in transactions or without."""
    servers = pieces.noida.bootstrap_servers
    pieces.run()
    pieces.produce_foreign(0)
    librdkafka.abort(servers, pieces.target, [Record(b"aborted", partition=0)])
    pieces.produce(0, b"four")
    assert counts(pieces.run()) == (1, 0)
    assert pieces.read() == [*VALUES, b"foreign", b"four"]
    new, topic = pieces.state.with_name("new"), pieces.target
    with pytest.raises(
        OptionError, match=rf"^argument --state: {topic} 0 begins with the messages of {topic}"
    ):
        pieces.run(clusters=pieces.clusters(), state=new)
    # By its name also where the messages are not there any more.
    librdkafka.delete_records(servers, topic, 0, len(VALUES))
    with pytest.raises(OptionError, match=rf"{topic} 0 already, with this name of transactions: another"):
        pieces.run(state=new)


@pytest.mark.parametrize(
    ("owner", "step", "said"),
    [
        (Producer, "finish", "INVALID_PRODUCER_EPOCH"),
        (Transactions, "commit_offsets", "another run of this migration began the same partition"),
        (Transactions, "end", "another run of this migration began the same partition"),
    ],
)
def test_of_two_runs_that_do_not_see_each_other_one_gives_way(
    pieces: Copying, owner: type, step: str, said: str
) -> None:
    """As from copies of a state on two machines: what the one had begun does not count."""
    with pytest.raises(Killed):
        pieces.run(runner=killed_after(0))
    other = shutil.copytree(pieces.state, pieces.state.with_name("other"))
    method = getattr(owner, step)

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        patch.undo()
        check(pieces.run(state=other))
        return method(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, overtaken)
        with pytest.raises(DeliveryError, match=said) as caught:
            pieces.run()
    assert "run the migration again, which asks the target" in str(caught.value)
    assert pieces.read() == VALUES
    assert counts(pieces.run()) == (0, 3)
    assert pieces.read() == VALUES


@contextlib.contextmanager
def beside_others(write: Callable[[], object]) -> Iterator[None]:
    """Somebody else writes before each piece is finished."""
    finish = Producer.finish

    def not_alone(producer: Producer) -> Any:
        write()
        return finish(producer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Producer, "finish", not_alone)
        yield


def test_a_message_of_another_producer_among_those_of_a_transaction_is_an_error(pieces: Copying) -> None:
    said = r"4 came while 3 were sent, by .*let no other program write there meanwhile"
    with beside_others(lambda: pieces.produce_foreign(0)), pytest.raises(DeliveryError, match=said):
        pieces.run()
    # Nothing of the piece is there, and it is not copied behind the other's message either.
    assert pieces.read() == [b"foreign"]
    with pytest.raises(DeliveryError, match="number 0 is not the source's message"):
        pieces.run()


def test_with_source_headers_others_may_write_all_the_time(pieces: Copying) -> None:
    def write() -> None:
        for send in (librdkafka.produce, librdkafka.abort, librdkafka.commit):
            send(pieces.noida.bootstrap_servers, pieces.target, [Record(b"foreign", partition=0)])

    pieces.made = pieces.clusters(source_headers=True)
    with beside_others(write):
        with pytest.raises(Killed):
            pieces.run(piece_bytes=PIECE_BYTES, runner=unheard)
        check(pieces.run(piece_bytes=PIECE_BYTES))
    assert [value for value in pieces.read() if value != b"foreign"] == VALUES
    assert len(pieces.read()) == 3 * len(VALUES)


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (
            {},
            {"exactly_once": False},
            "argument --exactly-once: the state .* begun with it; continue the same",
        ),
        (
            {"exactly_once": False},
            {},
            "argument --exactly-once: the state .* begun without it; continue the ",
        ),
        ({"transactional_id": "a"}, {"transactional_id": "b"}, "begun with 'a'; continue with that"),
    ],
)
def test_a_directory_goes_on_as_it_was_begun(
    pieces: Copying, first: dict[str, Any], then: dict[str, Any], said: str
) -> None:
    with pytest.raises(Killed):
        pieces.run(clusters=pieces.clusters(**first), runner=killed_after(0))
    with pytest.raises(OptionError, match=said):
        pieces.run(clusters=pieces.clusters(**then))
    with pytest.raises(OptionError, match=said):
        describe(pieces.clusters(**then), Settings(state=pieces.state, names=pieces.names))
