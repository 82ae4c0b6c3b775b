"""The plan of a run of ingest: proportions, cut points, losses, its record; values of JSON; and the state, of
which files that are damaged, mixed, older or of another run are errors."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.errors import DataLossError, KafkaWireError, OptionError
from spark_kafkawire.jobs.files import FileError, LocalFiles
from spark_kafkawire.jobs.ingest.output import (
    CORRUPT,
    Output,
    OutputOptions,
    decode_messages,
    given_schema,
    infer_schema,
)
from spark_kafkawire.jobs.ingest.run import Planning, SchemaOf
from spark_kafkawire.jobs.ingest.state import (
    RECORDS_CHECKED_MAX,
    IngestState,
    Plan,
    Remembered,
    limit_ranges,
    next_plan,
    ranges_to_read,
)
from spark_kafkawire.jobs.state import StateError
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .ingesting import Crash, LocalIngest, LocalOutput, crash, offsets_of, options_of

A, B, C = (TopicPartition("t", partition) for partition in range(3))
OLD = TopicPartition("old-topic", 1, 0)


def bounds(partition: TopicPartition, earliest: int, latest: int, *segment_starts: int) -> PartitionBounds:
    return PartitionBounds(partition, earliest, latest, segment_starts or None)


def test_a_plan_is_read_as_it_was_recorded() -> None:
    ranges = (OffsetRange(A, 5, 9), OffsetRange(OLD, 0, 1 << 62))
    for schema in (None, '{"type":"struct","fields":[]}'):
        plan = Plan(7, ranges, {A: 9, OLD: 1 << 62, C: 3}, schema, ("t 0 is gone",))
        assert Plan.from_json(plan.to_json(), "here") == plan


def test_report_an_invalid_plan_with_its_path() -> None:
    rest = '"positions": {}, "schema": null, "losses": []'
    ranges = '{"t": {"x": [0, 1]}}', '{"t": {"0": [0]}}', '{"t": 1}'
    texts = "", "{}", "[]", '{"batch": 0}', *(f'{{"batch": 0, "ranges": {item}, {rest}}}' for item in ranges)
    for text in texts:
        with pytest.raises(StateError, match=r"^/state/7\.done\.json is not a plan of ingest"):
            Plan.from_json(text, "/state/7.done.json")


def test_ranges_reach_from_each_position_to_the_end() -> None:
    ranges, losses = ranges_to_read([bounds(A, 0, 10), bounds(B, 3, 3)], {A: 4, B: 3}, fail_on_data_loss=True)
    assert (ranges, losses) == ([OffsetRange(A, 4, 10), OffsetRange(B, 3, 3)], {})


@pytest.mark.parametrize(
    ("start", "message"),
    [(2, r"t 0 \[2, 5\) was deleted before"), (11, r"t 0 ends at 10 and was read up to 11")],
)
def test_what_is_gone_is_an_error_unless_the_user_says_otherwise(start: int, message: str) -> None:
    with pytest.raises(DataLossError, match=message):
        ranges_to_read([bounds(A, 5, 10)], {A: start}, fail_on_data_loss=True)
    ranges, losses = ranges_to_read([bounds(A, 5, 10)], {A: start}, fail_on_data_loss=False)
    assert ranges == [OffsetRange(A, 5, 10)]
    assert list(losses) == [A]


def test_a_limit_is_shared_in_proportion() -> None:
    whole = [OffsetRange(A, 10, 110), OffsetRange(B, 0, 300), OffsetRange(C, 7, 7)]
    result = {item.topic_partition: bounds(item.topic_partition, 0, item.stop_offset) for item in whole}
    all_of_it = [100, 300]
    for size_max, sizes in (
        *((None, all_of_it), (1000, all_of_it), (400, all_of_it)),
        *((40, [10, 30]), (3, [1, 2]), (1, [1, 1])),
    ):
        parts = limit_ranges(whole, size_max, result)
        assert [part.size for part in parts] == sizes
        assert [part.start_offset for part in parts] == [10, 0]


def test_a_range_of_bytes_ends_where_a_segment_does() -> None:
    """A partition of one segment is read whole, whatever the limit is."""
    whole = OffsetRange(OLD, 0, 1000)
    result = {OLD: bounds(OLD, 0, 1000, 0, 400, 700)}
    stops = {1: 400, 399: 400, 400: 400, 699: 400, 700: 700, 999: 700, 1000: 1000}
    for size_max, stop in stops.items():
        assert limit_ranges([whole], size_max, result) == (OffsetRange(OLD, 0, stop),)
    single = OffsetRange(OLD, 10, 1000)
    assert limit_ranges([single], 1, {OLD: bounds(OLD, 0, 1000, 0)}) == (single,)


def test_plans_follow_each_other_and_logs_that_are_not_read_keep_their_place() -> None:
    first = next_plan(None, [OffsetRange(A, 0, 5)], {A: 0, B: 3}, None)
    assert (first.batch, first.positions) == (0, {A: 5, B: 3})
    second = next_plan(first, [OffsetRange(C, 2, 4)], {C: 2}, None)
    assert (second.batch, second.positions) == (1, {A: 5, B: 3, C: 4})


def test_what_is_known_of_a_topic_ends_with_it() -> None:
    first = next_plan(None, [OffsetRange(A, 0, 9)], {A: 0, C: 4}, None, (), {"t": "1", "u": "2"})
    assert first.recreated({"t": "1"}) == first.recreated({}) == first.recreated({"new": "3"}) == set()
    assert first.recreated({"t": "3", "u": "2"}) == {"t"}
    second = next_plan(first, [OffsetRange(A, 0, 3)], {A: 0}, None, (), {"t": "3"})
    assert (second.positions, second.topic_ids) == ({A: 3}, {"t": "3", "u": "2"})
    assert Plan.from_json(second.to_json(), "here") == second
    assert first.id != second.id


def test_logs_that_were_given_up_keep_their_place_and_are_remembered() -> None:
    first = next_plan(None, [OffsetRange(OLD, 0, 9)], {OLD: 0, A: 1}, None, gone=[OLD, A])
    assert Plan.from_json(first.to_json(), "here") == first
    assert (first.gone, first.positions[OLD]) == (frozenset((OLD, A)), 9)
    assert "gone" not in json.loads(next_plan(first, [], {}, None).to_json())


#: Not one JSON object, each in another way.
NOT_JSON: Final = (
    *("no JSON", "", " ", "null", "1", '{"n":1', '{"n":1} {"n":2}', '{"n":1}{"n":2}', '{"n":1},{"n":2}'),
    *('{"n":1},"n":2', '{"n":1}}', '{"n":1}] and more', '[{"n":1}]', '{"n":"text"}'),
)


def messages_of(spark: SparkSession, *values: str | None) -> DataFrame:
    rows = [(number, None, None if value is None else value.encode()) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "offset int, key binary, value binary").coalesce(1)


def test_what_is_not_one_json_object_of_the_schema_is_kept_as_it_is(spark: SparkSession) -> None:
    values = (*NOT_JSON, None, '{"n":1}', ' {"n" : 1, "other": "]}"} \n')
    frame = decode_messages(messages_of(spark, *values), "json", given_schema("n long"))
    result = [row.value for row in frame.orderBy("offset").collect()]
    assert [value and value[CORRUPT] for value in result] == [*NOT_JSON, None, None, None]
    assert [value and value.n for value in result] == [None] * len(NOT_JSON) + [None, 1, 1]


def test_a_field_that_an_object_names_twice_is_one_field(spark: SparkSession) -> None:
    messages = messages_of(spark, '{"n":1,"n":2,"in":[{"a":1,"a":"text"}]}')
    schema = infer_schema(spark, messages)
    assert [field["name"] for field in json.loads(schema)["fields"]] == ["in", "n", CORRUPT]
    [row] = decode_messages(messages, "json", schema).select("value.*").collect()
    assert (row.n, row["in"][0].a, row[CORRUPT]) == (2, "text", None)


def test_fields_that_spark_cannot_tell_apart_are_refused_and_not_left_out(spark: SparkSession) -> None:
    messages = messages_of(spark, '{"in":{"a":1}}', '{"in":{"A":2}}')
    with pytest.raises(OptionError, match=r"--decode: .* fields 'A' and 'a', which .* give a --schema with"):
        infer_schema(spark, messages)
    assert spark.conf.get("spark.sql.caseSensitive") == "false"


PARTITION: Final = TopicPartition("t", 0)
FILES: Final = LocalFiles()


def plans(count: int) -> list[Plan]:
    """Plans of a partition, ten offsets each."""
    result: list[Plan] = []
    for at in range(0, 10 * count, 10):
        last = result[-1] if result else None
        result.append(next_plan(last, [OffsetRange(PARTITION, at, at + 10)], {PARTITION: at}, None))
    return result


@pytest.fixture
def state(tmp_path: Path) -> IngestState:
    return IngestState(FILES, str(tmp_path))


def record(state: IngestState, plan: Plan) -> None:
    state.record(plan)
    state.finish(plan)


def test_an_older_record_that_is_gone_is_named_unless_all_before_it_are(
    state: IngestState, tmp_path: Path
) -> None:
    for plan in plans(4):
        record(state, plan)
    kept = (tmp_path / "1.done.json").rename(tmp_path / "kept")
    with pytest.raises(
        StateError, match=r"/1\.done\.json is missing, and batches 0 and 2 are recorded: put the"
    ):
        state.newest()
    (tmp_path / "0.done.json").unlink()
    assert state.newest() is not None
    kept.rename(tmp_path / "1.done.json")
    assert state.newest() is not None


def test_a_run_reads_no_more_records_the_more_runs_were_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles()
    state = IngestState(files, str(tmp_path))
    all_plans = plans(RECORDS_CHECKED_MAX + 20)
    for plan in all_plans:
        record(state, plan)
    read: list[str] = []
    read_file = files.read

    def noted(path: str) -> str:
        read.append(path)
        return read_file(path)

    monkeypatch.setattr(files, "read", noted)
    assert state.newest() == Remembered(all_plans[-1], True)
    assert len([path for path in read if path.endswith(".json")]) == RECORDS_CHECKED_MAX + 1


def test_files_that_changed_places_and_a_batch_that_was_never_finished_are_noticed(
    state: IngestState, tmp_path: Path
) -> None:
    for plan in plans(2):
        record(state, plan)
    first, second = tmp_path / "0.done.json", tmp_path / "1.done.json"
    shutil.copy(second, tmp_path / "second")
    shutil.copy(first, second)
    with pytest.raises(
        StateError, match=r"/1\.done\.json is that of batch 0: put back the file that was the"
    ):
        state.newest()
    shutil.copy(tmp_path / "second", second)
    first.rename(tmp_path / "0.planned.json")
    with pytest.raises(
        StateError, match=r"/0\.planned\.json was never finished, and batch 1 is recorded aft"
    ):
        state.newest()


class Runs:
    """Runs without Spark on a topic that grows by a message before each of them."""

    def __init__(self, noida: NoidaBroker, tmp_path: Path, name: str) -> None:
        self._noida = noida
        self._topic = noida.create_topic()
        self.count = 0
        self.output = tmp_path / f"{name}-out"
        self.state = tmp_path / f"{name}-state"

    def __call__(self, count: int = 1, *, latest: bool = False, grows: bool = True) -> None:
        for _ in range(count):
            self._run(None if latest else {}, grows)

    def _run(self, starting: dict[str, str] | None, grows: bool) -> None:
        if grows:
            records = [Record(b"%d" % self.count)]
            librdkafka.produce(self._noida.bootstrap_servers, self._topic, records)
            self.count += 1
        options = options_of(
            self._noida, self._topic, OutputOptions(str(self.output)), checkpoint=str(self.state)
        )
        LocalIngest(replace(options, starting=starting)).run()

    @property
    def offsets(self) -> list[int]:
        return offsets_of(OutputOptions(str(self.output)))


@pytest.fixture
def runs(noida: NoidaBroker, tmp_path: Path) -> Runs:
    return Runs(noida, tmp_path, "one")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("1.done.json", "/batch=1 is of a run that is not recorded"),
        ("*", "/batch=1 is of a run that is not recorded"),
        ("*.json", r"/0\.done\.json or a later one is missing, and the folder records that it existed; if"),
    ],
)
def test_a_state_of_which_the_newest_file_or_all_are_gone_is_noticed(
    runs: Runs, gone: str, said: str, tmp_path: Path
) -> None:
    """As an older copy of it is."""
    runs()
    shutil.copytree(runs.state, tmp_path / "copy")
    runs()
    for file in runs.state.glob(gone):
        file.unlink()
    with pytest.raises(KafkaWireError, match=said):
        runs()
    shutil.rmtree(runs.state)
    (tmp_path / "copy").rename(runs.state)
    with pytest.raises(FileError, match=r"/batch=1 is of a run that is not recorded, or of one with another"):
        runs()
    assert runs.offsets == [0, 1]


@pytest.mark.parametrize("gone", ["*.json", "*"])
def test_a_first_run_that_read_nothing_is_remembered_by_the_output_too(runs: Runs, gone: str) -> None:
    runs(latest=True)
    for file in runs.state.glob(gone):
        file.unlink()
    # It would begin at the new end, and pass over what came since.
    with pytest.raises(KafkaWireError, match=r"/batch=0 is of a run that is not recorded|0\.done\.json or a"):
        runs(latest=True)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_state_of_another_run_is_noticed(
    runs: Runs, noida: NoidaBroker, tmp_path: Path, count: int
) -> None:
    other = Runs(noida, tmp_path, "other")
    runs(2)
    other(count)
    shutil.rmtree(runs.state)
    shutil.copytree(other.state, runs.state)
    with pytest.raises(FileError, match=r"/batch=1 is of a run that is not recorded"):
        runs()
    assert runs.offsets == [0, 1]


def test_the_oldest_batches_may_be_removed(runs: Runs) -> None:
    runs(3)
    for batch in (0, 1):
        shutil.rmtree(runs.output / f"batch={batch}")
        runs()
    assert runs.offsets == [2, 3, 4]


@pytest.mark.parametrize(
    ("gone", "batch", "left"),
    [(".", 2, []), ("batch=*", 2, []), ("batch=2", 2, [0, 1]), ("batch=1", 1, [0, 2])],
    ids=["the output", "all batches", "the newest one", "one in the middle"],
)
def test_an_output_whose_batches_are_gone_is_not_gone_on_with(
    runs: Runs, gone: str, batch: int, left: list[int]
) -> None:
    runs(3)
    for folder in [*runs.output.glob(gone)] if gone != "." else [runs.output]:
        shutil.rmtree(folder)
    with pytest.raises(FileError) as refused:
        runs()
    missing = runs.output / f"batch={batch}"
    assert str(refused.value).startswith(f"{missing} is missing, and batches up to 2 were written here: put")
    assert runs.offsets == left
    # What the error advises where the rows were removed on purpose.
    missing.mkdir(parents=True)
    shutil.copy(runs.state / f"{batch}.done.json", missing / "_plan")
    runs()
    assert runs.offsets == [*left, 3, 4]


def test_batches_that_are_gone_are_noticed_before_an_unfinished_run_is_finished(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs()
    own, runs.output = runs.output, tmp_path / "other-out"
    with pytest.raises(FileError, match=r"/other-out/batch=0 is missing, and batches up to 0 were written"):
        runs()
    runs.output = own
    with monkeypatch.context() as patched:
        patched.setattr(LocalOutput, "write", crash)
        with pytest.raises(Crash):
            runs()
    shutil.rmtree(runs.output)
    with pytest.raises(FileError, match=r"/batch=0 is missing, and batches up to 0 were written here"):
        runs()
    # And where the records are gone with them.
    for file in runs.state.glob("[0-9]*.json"):
        file.unlink()
    with pytest.raises(StateError, match=r"/0\.done\.json or a later one is missing"):
        runs(latest=True)
    assert runs.offsets == []


def test_of_two_runs_that_no_lock_keeps_apart_only_one_records_a_batch(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that two machines share, and whose locks they do not."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    plan_next = Planning.next

    def overtaken(slow: Planning, last: Plan | None, schema_of: SchemaOf) -> Plan | None:
        plan = plan_next(slow, last, schema_of)
        monkeypatch.setattr(Planning, "next", plan_next)
        runs(grows=False)
        return plan

    monkeypatch.setattr(Planning, "next", overtaken)
    with pytest.raises(FileError, match=r"/batch=0 is another run's, or of one with another --checkpoint"):
        runs()
    runs()
    assert runs.offsets == [0, 1]


def test_an_attempt_that_is_removed_while_it_is_shown_is_shown_whole_or_not_at_all(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run has begun to remove it when this one has looked for it."""
    show = LocalFiles.sync

    def removed(files: LocalFiles, folder: str) -> None:
        monkeypatch.setattr(LocalFiles, "sync", show)
        with monkeypatch.context() as patched:
            # A removal takes its time, and nothing of it is done yet.
            patched.setattr("shutil.rmtree", lambda _: None)
            files.remove(str(Path(folder).parent))

    monkeypatch.setattr(LocalFiles, "sync", removed)
    with pytest.raises(FileError, match=r"unfinished/0-.*: cannot rename to .*/batch=0: No such file"):
        runs()
    runs()
    assert runs.offsets == [0, 1]


def test_a_folder_on_another_file_system_is_not_copied_to(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's renaming copies there, file by file, and a kill leaves half of a batch that counts as whole."""

    rename = os.rename

    def renamed(source: str, target: str) -> None:
        if "batch=" in target:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr("os.rename", renamed)
        with pytest.raises(FileError, match=r"batch=0: Invalid cross-device link; it is on another file"):
            Output(FILES, OutputOptions(str(runs.output))).write_nothing(plans(1)[0])
    assert not (runs.output / "batch=0").exists()
