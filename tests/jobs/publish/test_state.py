"""The state directory of `publish`, and the options of a publication."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from spark_kafkawire.errors import DataLossError, DiscoveryError, OptionError
from spark_kafkawire.jobs.files import FileError, LocalFiles
from spark_kafkawire.jobs.publish.comparison import TargetPartitions, await_settled, bounds_of, range_since
from spark_kafkawire.jobs.publish.options import SETTLE_S, PublishOptions
from spark_kafkawire.jobs.publish.state import (
    Done,
    Publication,
    PublishState,
    TopicRows,
)
from spark_kafkawire.jobs.state import StateError, sole_run
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.options import ReadOptions, WriteOptions

PARTITION: Final = TopicPartition("t", 0)
OLD_LOG: Final = TopicPartition("t", 1, 0)
TARGET: Final = "kafka.bootstrap.servers=k:9092"
PUBLICATION: Final = Publication(TARGET, {"t": TopicRows(1000, "12"), "u": TopicRows(1, "3")})


class ElsewhereFiles(LocalFiles):
    """Files of a file system that is not this machine's own."""

    def local_path(self, _: str) -> None:
        return None


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def state(folder: str) -> PublishState:
    return PublishState(LocalFiles(), folder)


def test_a_partition_is_read_from_the_first_end_that_a_run_recorded_of_it(
    state: PublishState, folder: str
) -> None:
    """And a publication is done once. A folder in which a run was killed before its first file is new."""
    with sole_run(LocalFiles(), [folder]):
        pass
    state.begin(PUBLICATION)
    assert (state.run_count, state.done()) == (0, None)
    state.begin_run({PARTITION: 7})
    state.begin_run({PARTITION: 9, OLD_LOG: 123})
    state.begin_run({OLD_LOG: 456})
    assert state.run_count == 3
    assert state.starts() == {PARTITION: 7, OLD_LOG: 123}
    state.finish(Done(1001, 2))
    state.begin(PUBLICATION)
    assert state.done() == Done(1001, 2)


def test_another_publication_is_refused(folder: str) -> None:
    def given(**topics: TopicRows) -> Publication:
        return Publication(TARGET, {**PUBLICATION.topics, **topics})

    once, named = (replace(PUBLICATION, transactional_id=name) for name in ("", "a"))
    rows = "was begun with 1,000 rows for topic 't', now there are"
    for number, (begun, other, said) in enumerate(
        (
            (
                PUBLICATION,
                Publication("broker.list=a:1", PUBLICATION.topics),
                f"was begun for {TARGET}, not for broker.list=a:1;",
            ),
            (PUBLICATION, given(t=TopicRows(1200, "12")), f"{rows} 1,200 rows: the input or an argument"),
            (PUBLICATION, given(t=TopicRows(1000, "13")), f"{rows} 1,000 other rows: "),
            (
                PUBLICATION,
                Publication(TARGET, {"t": PUBLICATION.topics["t"]}),
                "was begun with 1 row for topic 'u', now there are no rows: ",
            ),
            (
                PUBLICATION,
                given(w=TopicRows(2, "1")),
                "was begun with no rows for topic 'w', now there are 2 rows: ",
            ),
            (
                PUBLICATION,
                once,
                "was begun without --exactly-once, not with --exactly-once; continue that way",
            ),
            (once, PUBLICATION, "was begun with --exactly-once, not without --exactly-once; continue"),
            (once, named, "was begun with --exactly-once, not with --transactional-id 'a'; continue"),
        )
    ):
        state = PublishState(LocalFiles(), f"{folder}-{number}")
        state.begin(begun)
        with pytest.raises(OptionError) as refused:
            state.begin(other)
        assert str(refused.value).startswith(f"argument --state: {folder}-{number} {said}")


def test_a_file_of_something_else_is_named(state: PublishState, folder: str) -> None:
    file = Path(folder) / "publication.json"
    file.parent.mkdir()
    for text in ("", "{}", '{"format": "spark-kafkawire publish 1"}', '{"format": 2}', "[]"):
        file.write_text(text)
        with pytest.raises(StateError, match=r"publication.json is not of a publication, or damaged: it"):
            state.begin(PUBLICATION)


def every_use(state: PublishState) -> None:
    state.begin(PUBLICATION)
    if state.done() is None:
        state.starts()


def ended(folder: str, runs: int = 2) -> PublishState:
    """A publication of some runs."""
    state = PublishState(LocalFiles(), folder)
    state.begin(PUBLICATION)
    for number in range(runs):
        state.begin_run({PARTITION: 7 + number})
    return state


@pytest.mark.parametrize(
    ("name", "runs"), [("publication.json", 2), ("run-0.json", 2), ("run-1.json", 2), ("run-0.json", 1)]
)
def test_a_file_that_is_missing_is_named_and_nothing_is_taken_for_new(
    folder: str, name: str, runs: int
) -> None:
    ended(folder, runs)
    (Path(folder) / name).unlink()
    state = PublishState(LocalFiles(), folder)
    if name != "publication.json":
        assert state.run_count == runs
    with pytest.raises(StateError, match=rf"/{name} is missing, .*; put the file back as it was;"):
        every_use(state)


@pytest.mark.parametrize("files", [LocalFiles(), ElsewhereFiles()])
def test_a_publication_or_its_end_that_is_gone_is_named_where_no_run_has_left_more(
    folder: str, files: LocalFiles
) -> None:
    """As with --exactly-once, where brokers and not the state know of the runs."""
    missing = r"\.json is missing, and the folder records that it existed;"
    publication = replace(PUBLICATION, transactional_id="")
    PublishState(files, folder).begin(publication)
    (Path(folder) / "publication.json").unlink()
    for _ in range(2):
        with pytest.raises(StateError, match=rf"/publication{missing} put"):
            PublishState(files, folder).begin(publication)
    other = f"{folder}-other"
    state = PublishState(files, other)
    state.begin(PUBLICATION)
    state.finish(Done(1001, 0))
    (Path(other) / "done.json").unlink()
    again = PublishState(files, other)
    again.begin(PUBLICATION)
    with pytest.raises(StateError, match=f"/done{missing}"):
        again.done()


def test_what_a_killed_run_did_not_note_is_noted_by_the_next(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PublishState, "reach", lambda *_: None)
        state = PublishState(LocalFiles(), folder)
        state.begin(PUBLICATION)
        state.finish(Done(1001, 0))
    assert not (Path(folder) / "lock").exists()
    state = PublishState(LocalFiles(), folder)
    state.begin(PUBLICATION)
    assert state.done() == Done(1001, 0)
    assert (Path(folder) / "lock").read_text() == "begun\ndone\n"


@pytest.mark.parametrize(("name", "own"), [("run-0.json", False), ("done.json", False), ("run-1.json", True)])
def test_a_file_of_another_publication_or_run_is_refused(folder: str, name: str, own: bool) -> None:
    for item in (folder, f"{folder}-other"):
        state = ended(item)
        if name == "done.json":
            state.finish(Done(1001, 0))
    location = "run-0.json" if own else name
    shutil.copy(f"{folder}{'' if own else '-other'}/{name}", f"{folder}/{location}")
    with pytest.raises(StateError, match=rf"/{location} .*: it is of another publication or run; put the"):
        every_use(PublishState(LocalFiles(), folder))


def test_of_two_runs_that_begin_at_once_one_ends(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [PublishState(LocalFiles(), folder) for _ in range(2)]
    for state in states:
        state.begin(PUBLICATION)
    # Both have looked before one of them has begun.
    monkeypatch.setattr(PublishState, "run_count", 0)
    states[0].begin_run({PARTITION: 7})
    with pytest.raises(FileError, match=r"run-0\.json already exists: does another run write here\?"):
        states[1].begin_run({PARTITION: 7})


def test_what_a_partition_got_since_is_a_range_unless_some_of_it_is_gone() -> None:
    assert range_since(7, PartitionBounds(PARTITION, 7, 9)) == OffsetRange(PARTITION, 7, 9)
    with pytest.raises(
        DataLossError, match=r"^t 0 goes from 8 to 9: what it got from offset 7 on was deleted;"
    ):
        range_since(7, PartitionBounds(PARTITION, 8, 9))
    with pytest.raises(DataLossError, match=r"from offset 7 on is not there, so it was created again;"):
        range_since(7, PartitionBounds(PARTITION, 0, 6))


def test_a_broker_that_is_not_alive_is_named() -> None:
    cluster: Any = SimpleNamespace(leaders_of=lambda _: {PARTITION: None}, await_partitions=lambda _: None)
    with pytest.raises(
        DiscoveryError, match=r"^t 0-1: its broker is not alive, so what it has got of the rows"
    ):
        bounds_of(cluster, [PARTITION, OLD_LOG])


class Clock:
    """A clock that goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, time_s: float) -> None:
        self.now_s += time_s


def test_logs_are_still_when_they_have_not_grown_for_a_while() -> None:
    for grows_for_s, waited_s in ((0.0, 10.0), (4.5, 15.0), (50.0, 60.0), (1e9, 60.0)):
        clock = Clock()

        def ends(clock: Clock = clock, grows_for_s: float = grows_for_s) -> dict[TopicPartition, int]:
            return {PARTITION: int(min(clock.now_s - 100, grows_for_s) * 10)}

        await_settled(ends, 10.0, clock, clock.sleep)
        assert clock.now_s - 100 == pytest.approx(waited_s, abs=1.01)


GIVEN_07 = {"zookeeper.connect": "z:2181"}
GIVEN = {"kafka.bootstrap.servers": "k:9092"}


def test_with_a_state_rows_are_acknowledged_so_that_they_are_found() -> None:
    """Other acks are refused with a state alone."""
    for given, needed, is_wrong in (
        (GIVEN_07, "verify", False),
        ({**GIVEN_07, "Acks": "verify"}, "verify", False),
        (GIVEN, "all", False),
        ({**GIVEN, "kafka.acks": "-1"}, "all", False),
        ({**GIVEN_07, "acks": "1"}, "verify", True),
        ({**GIVEN_07, "ACKS": "0"}, "verify", True),
        ({**GIVEN, "kafka.acks": "1"}, "all", True),
    ):
        if not is_wrong:
            assert PublishOptions(connection=given, folder="/s").write.acks == needed
            continue
        with pytest.raises(
            OptionError, match=rf"^option acks: with --state it is {needed}, by which rows are"
        ):
            PublishOptions(connection=given, folder="/s")
        assert PublishOptions(connection=given).read is None


def test_the_partitions_are_read_back_with_what_the_write_connects_by() -> None:
    """No secret is shown, and a time to settle goes with a state."""
    given = {**GIVEN, "compression": "gzip", "kafka.security.protocol": "SSL"}
    options, no_spark = PublishOptions(connection={**given, "topic": "t"}, folder="/s"), cast(Any, None)
    assert options.reading == {**GIVEN, "kafka.security.protocol": "SSL", "includeHeaders": "true"}
    assert options.read is not None
    assert options.read.include_headers
    assert TargetPartitions(no_spark, options).settle_s == SETTLE_S
    login = {**GIVEN_07, "zookeeper.auth": "digest:etl:hunter2"}
    options = PublishOptions(connection={**login, "topic": "t"}, folder="/s", settle_s=3)
    assert (options.reading, TargetPartitions(no_spark, options).settle_s) == (login, 3)
    assert "hunter2" not in repr(options)
    with pytest.raises(OptionError, match=r"^argument --settle-seconds needs --state;"):
        PublishOptions(connection=GIVEN, settle_s=3)


def test_the_options_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[type] = []

    def counting(kind: type[ReadOptions] | type[WriteOptions]) -> None:
        parse = kind.parse

        def counted(raw: Mapping[str, str]) -> ReadOptions | WriteOptions:
            parsed.append(kind)
            return parse(raw)

        monkeypatch.setattr(kind, "parse", counted)

    counting(ReadOptions)
    counting(WriteOptions)
    options = PublishOptions(connection={**GIVEN_07, "topic": "t"}, folder="/s")
    assert options.schema.stored == {"value"}
    assert parsed == [WriteOptions, ReadOptions]
