"""jobs/offsets.py as a user runs it, on clusters of both kinds; what a survey asks an incomplete one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from spark_kafkawire import encode_message_set
from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.offsets.report import GroupOffset
from spark_kafkawire.jobs.offsets.run import Surveyed
from spark_kafkawire.model import Broker, Generation, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import v07
from tests.support import librdkafka
from tests.support.exactly_once import OnceWrite
from tests.support.foreign import Record
from tests.support.golden import read_json
from tests.support.mock_cluster import LIST_OFFSETS, NO_LEADER, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.settings import settings_07
from tests.support.tree_writer import TreeWriter

from ..drivers import Child, starting_runs
from ..submitting import ROOT, command

SCRIPT = ROOT / "jobs" / "offsets.py"
OFFSETS = command("offsets")
STAGES = read_json("zk_tree.json")["stages"]
#: A recorded group that nobody is in any more, and one with a member.
LEFT, LIVE = "14_consumer2_killed", "17_two_topics"
#: Where the recorded consumers stand in each partition of cc-topic, and where our logs of it end.
COMMITTED, END = 54, 74

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the job in this process: exit code, stdout, stderr."""

    def run(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["offsets.py", *argv])
        try:
            code = int(OFFSETS.JOB.main())
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers with six partitions of cc-topic, each one message of ``END`` bytes."""
    with EmbeddedCluster(brokers=2, partitions=3) as cluster:
        message_set = encode_message_set([bytes(END - 10)])
        for broker in cluster.brokers:
            address = Broker(broker.id, broker.host, broker.port)
            with Client.connect(address, settings_07()) as client:
                for partition in range(3):
                    client.send(v07.ProduceRequest("cc-topic", partition, message_set))
                client.request(v07.OffsetsRequest("cc-topic", 0, v07.LATEST_TIME, 1))
        yield cluster


@pytest.fixture
def groups(cluster: EmbeddedCluster) -> Iterator[KazooClient]:
    """The recorded groups are in ZooKeeper, as the JVM wrote them."""
    client = KazooClient(cluster.zookeeper_connect)
    client.start()
    nodes = [f"/brokers/topics/cc-topic/{broker.id}" for broker in cluster.brokers]
    poll(lambda: all(map(client.exists, nodes)), "both brokers register")
    for stage in (LEFT, LIVE):
        for path, data in recorded(stage).items():
            client.create(path, data.encode(), makepath=True)
    yield client
    client.delete("/consumers", recursive=True)
    client.stop()
    client.close()


def recorded(stage: str) -> dict[str, str]:
    """The nodes with data that consumers wrote, by path."""
    nodes = (node for node in STAGES[stage]["tree"] if node["path"].startswith("/consumers/"))
    return {node["path"]: node["data"] for node in nodes if node["data"]}


def offsets_in(client: KazooClient, group: str, topic: str = "cc-topic") -> dict[str, str]:
    root = f"/consumers/{group}/offsets/{topic}"
    return {name: client.get(f"{root}/{name}")[0].decode() for name in sorted(client.get_children(root))}


def at(cluster: EmbeddedCluster) -> tuple[str, ...]:
    return ("--quiet", "--option", f"zookeeper.connect={cluster.zookeeper_connect}")


@pytest.mark.usefixtures("groups")
def test_a_group_of_the_jvm_is_reported_with_its_lag(cluster: EmbeddedCluster) -> None:
    command = [sys.executable, str(SCRIPT), "--option", f"zookeeper.connect={cluster.zookeeper_connect}"]
    done = subprocess.run(
        [*command, "--group", "lab-group", "--json"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["groups"]["lab-group"]["lag"] == 6 * (END - COMMITTED)
    assert [(partition["broker"], partition["partition"]) for partition in reported["logs"]] == [
        (broker, partition) for broker in (0, 1) for partition in range(3)
    ]
    for log in reported["logs"]:
        assert [log[name] for name in ("earliest", "latest", "bytes", "segments")] == [0, END, END, 1]
        assert log["groups"]["lab-group"]["offset"] == COMMITTED
    assert "offsets: asking 2 brokers for 6 partitions ..." in done.stderr


@pytest.mark.usefixtures("groups")
def test_the_zip_is_all_that_the_job_needs(cluster: EmbeddedCluster, package: Path, tmp_path: Path) -> None:
    page = tmp_path / "offsets.html"
    # -S: no .pth file leads to this checkout.
    variables = {**os.environ, "PYTHONPATH": f"{package}:{sysconfig.get_path('purelib')}"}
    command = [sys.executable, "-S", str(SCRIPT), *at(cluster), "--group", "lab-group", "--html", str(page)]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["cc-topic", "1-2", "0", "74", "74", "1", "54", "20"] in lines
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert ".sizebar" in page.read_text("utf-8")


def test_an_export_is_what_the_jvm_wrote(
    run: Run, cluster: EmbeddedCluster, groups: KazooClient, tmp_path: Path
) -> None:
    groups.create("/consumers/lab-group/ids", makepath=True)
    file = tmp_path / "offsets.txt"
    code, _, err = run(*at(cluster), "--group", "lab-group", "--group", "lab-two", "--export", str(file))
    lost = (
        "offsets: 3 offsets in partitions that no live broker holds, cc-comp 0-0 of group 'lab-two' "
        "first: start"
    )
    assert (code, err.startswith(lost), err.count("\n")) == (0, True, 1)
    offsets = {**recorded(LEFT), **recorded(LIVE)}
    expected = {f"{path}:{data}" for path, data in offsets.items() if "/offsets/" in path}
    assert len(expected) == 6 + 9  # those of cc-comp, which this cluster does not hold, too
    assert sorted(file.read_text("utf-8").splitlines()) == sorted(expected)


def test_all_groups_are_those_with_an_offset_for_the_topics(
    run: Run, cluster: EmbeddedCluster, groups: KazooClient
) -> None:
    groups.create("/consumers/elsewhere/offsets/another/0-0", b"5", makepath=True)
    groups.create("/consumers/idle/ids", makepath=True)
    code, out, _ = run(*at(cluster), "--all-groups", "--json")
    assert (code, list(json.loads(out)["groups"])) == (0, ["elsewhere", "lab-group", "lab-two"])
    for choice in (("--topic", "cc-topic"), ("--topic-pattern", "^cc-")):
        code, out, _ = run(*at(cluster), "--all-groups", "--json", *choice)
        assert (code, list(json.loads(out)["groups"])) == (0, ["lab-group", "lab-two"])


def test_an_import_changes_the_nodes_of_its_lines_only(
    run: Run, cluster: EmbeddedCluster, groups: KazooClient, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text("/consumers/lab-group/offsets/cc-topic/0-1:0\n/consumers/new/offsets/cc-topic/1-1:99\n")
    before = offsets_in(groups, "lab-group")
    code, out, err = run(*at(cluster), "--import", str(file), "--dry-run", "--json")
    assert (code, err) == (0, "")
    planned = json.loads(out)
    assert planned["dry_run"] is True
    assert [
        (change["group"], change["from"], change["to"], change["note"]) for change in planned["changes"]
    ] == [("lab-group", COMMITTED, 0, None), ("new", None, 99, "beyond the log's end")]
    assert offsets_in(groups, "lab-group") == before
    assert groups.exists("/consumers/new") is None

    code, out, err = run(*at(cluster), "--import", str(file))
    assert (code, err) == (0, "")
    assert ["lab-group", "cc-topic", "0-1", "54", "0"] in [line.split() for line in out.splitlines()]
    assert "2 offsets changed" in out
    assert offsets_in(groups, "lab-group") == {**before, "0-1": "0"}
    assert offsets_in(groups, "new") == {"1-1": "99"}

    assert "0 offsets changed" in run(*at(cluster), "--import", str(file))[1]


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_no_group_of_a_file_is_touched_while_one_has_members(
    dry_run: tuple[str, ...], run: Run, cluster: EmbeddedCluster, groups: KazooClient, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text(
        "/consumers/lab-group/offsets/cc-topic/0-1:0\n/consumers/lab-two/offsets/cc-topic/0-1:0\n"
    )
    code, out, err = run(*at(cluster), "--import", str(file), *dry_run)
    assert (code, out) == (2, "")
    assert err == (
        "offsets: argument --import: the group 'lab-two' has 1 member, 'lab-two_t' first, which would "
        "overwrite its offsets: stop them, or leave the group out\n"
    )
    assert set(offsets_in(groups, "lab-group").values()) == {"54"}
    assert run(*at(cluster), "--import", str(file), "--group", "lab-group", *dry_run)[0] == 0


@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
@pytest.mark.nightly
def test_a_run_that_is_killed_leaves_whole_offsets_and_whole_files(
    cluster: EmbeddedCluster, groups: KazooClient, tmp_path: Path
) -> None:
    expected = {f"/consumers/g{n % 7}/offsets/t{n % 50}/0-{n}": f"{1000 + n}" for n in range(100)}
    given, copy = tmp_path / "given", tmp_path / "copy"
    given.write_text("".join(f"{path}:{offset}\n" for path, offset in expected.items()))
    chosen = [f"--group=g{n}" for n in range(7)]

    def found() -> dict[str, str]:
        return {path: groups.get(path)[0].decode() for path in expected if groups.exists(path)}

    def started(*argv: str) -> Child:
        given = {"argv": [*at(cluster), *argv]}
        return runs.start("offsets", given, {"gate": None, "clock_s": 0.0, "stops": False})

    def run_whole(*argv: str) -> float:
        """Duration of a run."""
        began_s = time.monotonic()
        job = started(*argv)
        assert runs.ended(job) == 0, job.output.read_text()
        return time.monotonic() - began_s

    def run_for(wait_s: float, *argv: str) -> bool:
        """Kill a run after ``wait_s``. Returns True if it was killed before its end."""
        job = started(*argv)
        time.sleep(wait_s)
        job.signal(signal.SIGKILL)
        return runs.ended(job) != 0

    draw = random.Random(5)
    with starting_runs(["tests.jobs.driver"], tmp_path) as runs:
        whole_s = run_whole("--dry-run", "--import", str(given))
        kills = 0
        while kills < 10:
            kills += run_for(draw.uniform(0, 1.5 * whole_s), "--import", str(given))
            assert found().items() <= expected.items()
        run_whole("--import", str(given))
        assert found() == expected

        whole_s = run_whole("--export", str(copy), *chosen)
        kills = 0
        while kills < 10:
            copy.unlink(missing_ok=True)
            kills += run_for(draw.uniform(0, 1.1 * whole_s), "--export", str(copy), *chosen)
            assert not copy.exists() or sorted(copy.read_text().splitlines()) == sorted(
                given.read_text().splitlines()
            )


@pytest.fixture
def modern(noida: NoidaBroker) -> dict[str, Any]:
    """A topic of ten records in two partitions, and a group in it."""
    topic = noida.create_topic(partitions=2)
    records = [Record(b"v", partition=0, timestamp_ms=1_700_000_000_000 + number) for number in range(10)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    group = f"group-of-{topic}"
    librdkafka.commit_offsets(noida.bootstrap_servers, group, topic, {0: 4})
    where = ("--quiet", "--option", f"kafka.bootstrap.servers={noida.bootstrap_servers}")
    return {"topic": topic, "group": group, "at": where, "servers": noida.bootstrap_servers}


def test_later_kafka_is_reported_with_records_and_times(run: Run, modern: dict[str, Any]) -> None:
    code, out, _ = run(*modern["at"], "--topic", modern["topic"], "--all-groups", "--json")
    reported = json.loads(out)
    assert (code, list(reported["groups"])) == (0, [modern["group"]])
    first, empty = reported["logs"]
    assert (first["earliest"], first["latest"], first["records"]) == (0, 10, 10)
    assert (first["first_time"], first["max_time"]) == (1_700_000_000_000, 1_700_000_000_009)
    assert first["groups"][modern["group"]] == {"offset": 4, "lag": 6, "lost": 0}
    assert (empty["records"], empty["first_time"], empty["max_time"]) == (0, None, None)
    assert empty["groups"][modern["group"]] == {"offset": None, "lag": None, "lost": 0}


def test_groups_of_exactly_once_writes_are_no_consumers(
    run: Run, modern: dict[str, Any], tmp_path: Path
) -> None:
    """Their offsets are numbers of records, beyond the end of a partition that is shorter."""
    topic, group, name = modern["topic"], modern["group"], f"write-of-{modern['topic']}"
    rows = [[(b"row", 1)], [(b"row", 0)]]
    for number in range(8):
        options = {"kafka.transactional.id": name, "batch": f"{number}"}
        OnceWrite(modern["servers"], topic, rows, options).run()
    at = (*modern["at"], "--topic", topic)
    page, exported = tmp_path / "page.html", tmp_path / "offsets.csv"
    files = ("--html", str(page), "--export", str(exported))
    code, out, _ = run(*at, "--all-groups", "--check", "--json", *files)
    reported = json.loads(out)
    assert (code, reported["data_loss"]) == (0, [])
    assert list(reported["groups"]) == [group]
    groups = [f"{name}-0", f"{name}-1", f"{name}-driver"]
    assert reported["writes"] == {name: groups}
    assert name not in exported.read_text("utf-8")
    assert "Exactly-once writes" in page.read_text("utf-8")
    out = run(*at, "--all-groups", "--check")[1]
    assert f"exactly-once write {name}: 3 groups with its records, no consumers" in out
    # Also where they are named.
    code, out, _ = run(*at, "--check", "--json", "--group", groups[0], "--group", group)
    reported = json.loads(out)
    assert (code, list(reported["groups"]), reported["writes"]) == (0, [group], {name: groups[:1]})


def test_a_consumers_group_that_is_named_like_a_write_s_is_checked(run: Run, modern: dict[str, Any]) -> None:
    topic = modern["topic"]
    name = f"write-of-{topic}"
    OnceWrite(modern["servers"], topic, [[(b"row", 1)]], {"kafka.transactional.id": name}).run()
    groups = [f"{name}{end}" for end in ("-3", "-driver", "-driver.1")]
    for group in groups:
        librdkafka.commit_offsets(modern["servers"], group, topic, {1: 1000})
    code, out, _ = run(*modern["at"], "--topic", topic, "--all-groups", "--check", "--json")
    reported = json.loads(out)
    assert code == 3
    said = "1 offset beyond the end of the log"
    assert reported["data_loss"] == [f"group '{group}': {said}, {topic} 1 first" for group in groups]
    assert set(groups) <= set(reported["groups"])


def test_offsets_of_later_kafka_go_out_and_come_back_while_no_member_is_there(
    run: Run, modern: dict[str, Any], tmp_path: Path
) -> None:
    file, group, topic = tmp_path / "offsets.csv", modern["group"], modern["topic"]
    assert run(*modern["at"], "--group", group, "--export", str(file))[0] == 0
    assert file.read_text("utf-8") == f"{group},{topic},0,4\n"
    librdkafka.commit_offsets(modern["servers"], group, topic, {0: 9})
    with librdkafka.member(modern["servers"], group, topic):
        code, _, err = run(*modern["at"], "--import", str(file), "--group", group)
    assert (code, err.count("\n")) == (2, 1)
    assert f"the group '{group}' has 1 member" in err
    assert librdkafka.committed_offset(modern["servers"], group, topic) == 9
    code, out, _ = run(*modern["at"], "--import", str(file))
    assert (code, out.splitlines()[-1]) == (0, "1 offset changed")
    assert librdkafka.committed_offset(modern["servers"], group, topic) == 4


@pytest.mark.usefixtures("groups")
def test_a_check_fails_where_an_offset_is_in_no_partition(run: Run, cluster: EmbeddedCluster) -> None:
    check = (*at(cluster), "--check", "--group")
    code, out, err = run(*check, "lab-group")
    assert (code, out.splitlines()[-1].split(), err) == (0, ["data", "loss", "none"], "")
    code, out, _ = run(*check, "lab-two")
    complaint = "group 'lab-two': 3 offsets in partitions that no broker holds, cc-comp 0-0 first"
    assert (code, out.splitlines()[-1].split(maxsplit=2)) == (3, ["data", "loss", complaint])
    assert "3 offsets in partitions that are not there" in out
    code, out, _ = run(*check, "lab-two", "--json")
    assert (code, json.loads(out)["data_loss"]) == (3, [complaint])
    code, out, _ = run(*check, "lab-tow")
    assert (code, "data loss  group 'lab-tow' has committed no offset here" in out) == (3, True)


def test_wrong_usage_is_one_line_and_exit_code_2(
    run: Run, cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster must be asked before."""
    monkeypatch.chdir(tmp_path)
    Path("wrong").write_text("\nthis is no offset\n")
    for argv, complaint in (
        ("--topic cc-topics", "no broker holds the topic cc-topics; did you mean cc-topic"),
        ("--group a/b", "group 'a/b' cannot be the name of a node"),
        ("--html missing/page.html", "argument --html: missing/page.html: No such file"),
        ("--export missing/f --group g", "argument --export: missing/f: No such file"),
        ("--import wrong", "argument --import: line 2 is not /consumers/GROUP/offsets/"),
    ):
        code, out, err = run(*at(cluster), *argv.split())
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"offsets: {complaint}")
    assert [path.name for path in tmp_path.iterdir()] == ["wrong"]


def test_a_cluster_that_is_not_there_is_a_failure(run: Run) -> None:
    options = ("zookeeper.connect=127.0.0.1:9", "requestTimeout=200ms", "brokerDownTimeout=0s")
    code, out, err = run("--quiet", *(word for option in options for word in ("--option", option)))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "zookeeper.connect: 127.0.0.1:9" in err


@pytest.mark.parametrize("form", [pytest.param((), marks=pytest.mark.nightly), ("--json",)])
def test_end_the_job_silently_when_its_reader_has_gone(
    form: tuple[str, ...], cluster: EmbeddedCluster
) -> None:
    command = [sys.executable, str(SCRIPT), *at(cluster), *form]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        job.stdout.close()
        assert job.stderr.read() == b""
    assert job.returncode == 1


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


def quiet(_what: str) -> None:
    """Progress that nobody sees."""


def servers_at(servers: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "requestTimeout": "10s", **options}


def test_a_partition_without_leader_is_reported_and_not_waited_for(mock_cluster: MockCluster) -> None:
    report = Surveyed.of(servers_at(mock_cluster.bootstrap_servers)).report([], quiet)
    assert (report.topics, report.logs, len(report.brokers)) == ((), (), 3)
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_leader("t", 0, 2)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", [Record(b"v", partition=0)])
    mock_cluster.set_leader("t", 1, NO_LEADER)
    report = Surveyed.of(servers_at(mock_cluster.bootstrap_servers)).report([], quiet)
    served, unserved = report.logs
    assert (served["broker"], served["records"]) == (2, 1)
    assert (unserved["broker"], unserved["earliest"]) == (None, None)
    assert [broker.id for broker in report.brokers] == [1, 2, 3]


def test_each_leader_is_asked_four_times_however_many_partitions_it_has(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=30)
    for partition in range(30):
        mock_cluster.set_leader("t", partition, 1 + partition % 3)
    records = [Record(b"v", partition=partition) for partition in range(30)]
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", records)
    surveyed = Surveyed.of(servers_at(mock_cluster.bootstrap_servers))
    mock_cluster.start_request_tracking()
    assert surveyed.report([], quiet).size == 30
    asked = Counter(
        request.broker_id for request in mock_cluster.requests() if request.api_key == LIST_OFFSETS
    )
    # Where logs start, where they end, and when their first and their youngest records were made.
    assert set(asked) == {1, 2, 3}
    assert max(asked.values()) <= 4


def test_offsets_of_other_topics_are_strays_only_where_all_topics_are_surveyed(noida: NoidaBroker) -> None:
    first, second = (noida.create_topic() for _ in range(2))
    group = f"group-of-{first}"
    librdkafka.commit_offsets(noida.bootstrap_servers, group, first, {0: 3})
    librdkafka.commit_offsets(noida.bootstrap_servers, group, second, {0: 5})
    every = Surveyed.of(servers_at(noida.bootstrap_servers)).report([group], quiet)
    chosen = Surveyed.of(servers_at(noida.bootstrap_servers, subscribe=first)).report([group], quiet)
    first_offset = GroupOffset(group, TopicPartition(first, 0), 3)
    assert every.unknown == chosen.unknown == ()
    assert every.group_offsets() == (first_offset, GroupOffset(group, TopicPartition(second, 0), 5))
    assert chosen.group_offsets() == (first_offset,)


@pytest.fixture
def tree(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[TreeWriter]:
    """A tree of the test's own."""
    with TreeWriter(zookeeper.connect, f"/{request.node.name}") as writer:
        yield writer


def test_report_a_partition_of_a_dead_broker(tree: TreeWriter, caplog: pytest.LogCaptureFixture) -> None:
    tree.put_broker(0, port=9)
    tree.put_topic("t", {7: 3})
    tree.put("/consumers/g/offsets/t/7-0", b"no offset")
    tree.put("/consumers/g/offsets/t/7-1", b"5")
    tree.put("/consumers/g/offsets/t/no partition", b"5")
    tree.put("/consumers/g/offsets/gone/0-0", b"6")
    surveyed = Surveyed.of({"zookeeper.connect": tree.connect})
    assert surveyed.groups_with_offsets(quiet) == ("g",)
    report = surveyed.report(["g"], quiet)
    assert [
        (report.partition_of(row).name, row["earliest"], row["groups"]["g"]["offset"]) for row in report.logs
    ] == [("7-0", None, None), ("7-1", None, 5), ("7-2", None, None)]
    assert report.unknown == (GroupOffset("g", TopicPartition("gone", 0, 0), 6),)
    assert (report.group("g").lag, report.group("g").partition_count) == (None, 1)
    # A node that holds no offset is told, and keeps nothing else back.
    assert "t/7-0 holds 'no offset', which is not an offset; the node is ignored" in caplog.text
    # The session of broker 9 is expired: neither it nor its partitions are in ZooKeeper.
    tree.put("/consumers/h/offsets/t/9-1", b"5")
    caplog.clear()
    report = Surveyed.of({"zookeeper.connect": tree.connect, "subscribe": "t"}).report(["h"], quiet)
    assert report.unknown == (GroupOffset("h", TopicPartition("t", 1, 9), 5),)
    assert caplog.messages == [
        "1 offset in partitions that no live broker holds, t 9-1 of group 'h' first: start its broker, "
        "unless it is gone for good"
    ]


def test_a_list_of_brokers_knows_the_topics_that_are_named(corpus: EmbeddedCluster) -> None:
    options = {"broker.list": corpus.broker_list, "subscribe": "debian-gzip"}
    surveyed = Surveyed.of(options)
    assert (surveyed.place, surveyed.generation) == (f"broker.list={corpus.broker_list}", Generation.V07)
    assert [tp.name for tp in surveyed.partitions] == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    assert surveyed.report([], quiet).size > 1_000_000
    with pytest.raises(OptionError, match=r"group 'g': .* set zookeeper\.connect"):
        surveyed.report(["g"], quiet)


def test_a_report_shows_no_secret(noida: NoidaBroker) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
    }
    surveyed = Surveyed.of(servers_at(noida.bootstrap_servers, **login, subscribe=noida.create_topic()))
    assert "hunter2" not in repr(surveyed)
    assert surveyed.report([], quiet).place == f"kafka.bootstrap.servers={noida.bootstrap_servers}"
