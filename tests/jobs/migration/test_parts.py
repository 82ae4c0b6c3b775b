"""Parts of a migration: routes, notes of brokers, the target's content, the summary; the state, which is read
back as written, with one writer at a time, never half; columns compared and summed; headers with sources."""

from __future__ import annotations

import fcntl
import json
import re
import uuid
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata,
    write_of_id,
)
from spark_kafkawire.errors import DeliveryError, OptionError
from spark_kafkawire.jobs.files import FileError
from spark_kafkawire.jobs.migration.clusters import are_from, headers_of
from spark_kafkawire.jobs.migration.copying import Differs, Present, ValuesDigest
from spark_kafkawire.jobs.migration.exactly_once import decode_note, encode_note, partition_transactional_id
from spark_kafkawire.jobs.migration.run import PartitionCopy, prepare_topics, report
from spark_kafkawire.jobs.migration.state import (
    Mark,
    PartitionProgress,
    Route,
    State,
    StateDirectory,
    load_state,
    parse_names,
    partition_counts,
    routes_of,
)
from spark_kafkawire.jobs.state import StateError
from spark_kafkawire.model import Broker, Leader, TopicPartition
from spark_kafkawire.records.columns import HEADERS, Columns
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.writing import binary

from .migrating import change_state, clusters_of


def partitions(topic: str, *names: str) -> list[TopicPartition]:
    """``0-1`` is partition 1 on broker 0."""
    pairs = [name.split("-") for name in names]
    return [TopicPartition(topic, int(partition), int(broker)) for broker, partition in pairs]


def shown(routes: object) -> list[str]:
    return [f"{route.source} -> {route.target}" for route in routes]  # type: ignore[attr-defined]


def test_logs_become_partitions_in_the_order_of_brokers() -> None:
    routes = routes_of(partitions("t", "10-0", "2-1", "2-0"), {}, {})
    assert shown(routes) == ["t 2-0 -> t 0", "t 2-1 -> t 1", "t 10-0 -> t 2"]
    assert partition_counts(routes) == {"t": 3}
    # Topics that go to one topic share no partition.
    routes = routes_of([*partitions("b", "0-0"), *partitions("a", "0-0", "0-1")], {"a": "x", "b": "x"}, {})
    assert shown(routes) == ["a 0-0 -> x 0", "a 0-1 -> x 1", "b 0-0 -> x 2"]
    # A partition that a later run finds gets the next number, and none can change its target.
    known = {route.source: route.target for route in routes_of(partitions("t", "1-0", "1-1"), {}, {})}
    every = partitions("t", "0-0", "1-0", "1-1")
    assert shown(routes_of(every, {}, known)) == ["t 0-0 -> t 2", "t 1-0 -> t 0", "t 1-1 -> t 1"]
    with pytest.raises(OptionError, match="t 1-0 is copied to t 0 already"):
        routes_of(every[1:], {"t": "new"}, known)
    with pytest.raises(OptionError, match="'other' is not among the topics"):
        routes_of(every, {"other": "x"}, {})


def test_names_are_pairs() -> None:
    assert parse_names(["a=b", " c = d "]) == {"a": "b", "c": "d"}
    problem = "(is not OLD=NEW; correct it|appears twice; remove one)"
    for pairs in (["a"], ["=b"], ["a="], ["a=b", "a=c"]):
        with pytest.raises(OptionError, match=rf"^argument --map: 'a?=?b?' {problem}$"):
            parse_names(pairs)


ROUTE = Route(TopicPartition("old\n\N{SNOWMAN}", 2, 1), TopicPartition("new", 5))
MARK = Mark(9 << 40, 17, 12)
NOTE = encode_note(ROUTE, MARK)


def test_a_note_is_read_back_as_it_was_written() -> None:
    assert decode_note(NOTE, ROUTE, "g") == MARK
    # Brokers take 4096 bytes, and no topic of 0.7 has a longer name than a folder.
    route = Route(TopicPartition("\N{SNOWMAN}" * 255, 2, 1), TopicPartition("n" * 249, 5))
    assert len(encode_note(route, Mark(1 << 62, 1 << 62, 1 << 62)).metadata) < 4096


def test_the_note_of_another_partition_or_program_is_refused() -> None:
    for route in (
        replace(ROUTE, source=TopicPartition("old", 2, 1)),
        replace(ROUTE, source=ROUTE.source._replace(broker=2)),
        replace(ROUTE, target=TopicPartition("new", 6)),
    ):
        said = f"group 'g' holds the note of another copy than that of {route.source} to"
        with pytest.raises(OptionError) as refused:
            decode_note(NOTE, route, "g")
        assert str(refused.value).startswith(f"argument --transactional-id: {said}")
    for text in ("", "{}", '{"kafkawire":1}', '{"kafkawire":1,"end":"17"}', "[" * 999):
        with pytest.raises(OptionError, match="an offset that another program committed"):
            decode_note(OffsetAndMetadata(1, text), ROUTE, "g")


def test_a_partition_goes_on_behind_its_note_where_the_state_knows_less() -> None:
    note = Mark(200, 20, 20)
    for mark, after in (
        (Mark(100, 10, 10), note),
        (Mark(100, 10, 20), note),  # a piece without messages
        (note, None),
        (Mark(200, 25, 20), None),  # others wrote between two runs
        (Mark(250, 20, 20), None),  # the source lost bytes
        (Mark(250, 10, 10), Mark(250, 20, 20)),  # the same, by an older copy of the state
        (Mark(300, 30, 30), None),
    ):
        assert note.after(mark) == after


def test_no_write_of_a_name_has_the_ids_of_partitions() -> None:
    for topic in ("t", "driver", "3-12.0.5", "a-0", "a-driver"):
        name = partition_transactional_id("orders", Route(ROUTE.source, TopicPartition(topic, 5)))
        assert write_of_id(name) is None
        assert not re.search("-(driver|[0-9]+)$", name)


SOURCE, TARGET = TopicPartition("old", 0, 0), TopicPartition("t", 0)


def begun_copy(topic_id: str | None) -> PartitionCopy:
    """A begun_copy that an earlier run has begun."""
    none = Mark(0, 0)
    progress = PartitionProgress(SOURCE, TARGET, topic_id, ProducerId(1, 0), copied=none, verified=none)
    return PartitionCopy(Route(SOURCE, TARGET), Leader(Broker(0, "localhost", 1)), 0, 0, progress)


def test_refuse_a_target_that_was_recreated_since_the_last_run() -> None:
    """By the ids that topics have."""
    with LogServer({"t": [MemoryLog()]}) as server:
        clusters = clusters_of("localhost:1", server.bootstrap_servers, ["old"])
        result = str(server.broker.topic_id("t"))
        for known in (result, None):  # an earlier run's brokers may have had no ids
            assert prepare_topics(clusters, [begun_copy(known)], create=False) == {TARGET: result}
        with pytest.raises(
            OptionError, match=r"^topic 't' of the target was deleted and created again since"
        ):
            prepare_topics(clusters, [begun_copy(str(uuid.uuid4()))], create=False)


COPIED = {"source": "t 0-0", "target": "new 0", "messages": 1200, "sha256": "ab" * 32}
FINE = {**COPIED, "target_messages": 1200, "target_sha256": "ab" * 32, "equal": True}
OTHER = {"source": "t 0-1", "target": "new 1", "target_messages": 7, "target_sha256": "cd" * 32}
WRONG = {**COPIED, **OTHER, "equal": False}
PLANNED = {"source": "t 0-0", "target": "new 0", "start_offset": 5, "stop_offset": 90, "bytes": 85}


def summary(*partitions: dict[str, Any]) -> dict[str, Any]:
    failed = [item["source"] for item in partitions if item.get("equal") is False]
    return {"logs": len(partitions), "partitions": list(partitions), "failed": failed, "data_loss": []}


def test_a_table_tells_of_each_partition_and_the_summary_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    lossy = {**summary(FINE), "data_loss": ["t 0-0: 50 bytes"]}
    equal = "t 0-0  ->  new 0  1,200 messages  sha256 abababababab  equal"
    counted = summary({**FINE, "deleted_since": 1000})
    for reported, as_json, table, left in (
        (summary(FINE), False, f"{equal}\n", {"logs": 1}),
        (lossy, False, f"{equal}\n", {"logs": 1, "data_loss": ["t 0-0: 50 bytes"]}),
        (counted, False, f"{equal} except for 1,000 that the source has deleted since\n", {"logs": 1}),
        (summary(PLANNED), False, "t 0-0  ->  new 0  5 to 90  85 bytes\n", {"logs": 1}),
        (summary(FINE), True, "", summary(FINE)),
    ):
        assert report(reported, as_json=as_json) == left
        assert capsys.readouterr().out == table


def test_report_what_differs_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DeliveryError) as caught:
        report(summary(FINE, WRONG), as_json=True)
    assert str(caught.value) == (
        "verification failed for 1 of 2 partitions: t 0-1 has 1,200 messages (sha256 abababababab), new 1 "
        "has 7 messages (sha256 cdcdcdcdcdcd); copy to a new topic with an empty state directory"
    )
    assert json.loads(capsys.readouterr().out) == summary(FINE, WRONG)


PARTITION = PartitionProgress(
    source=TopicPartition("t", 2, 1),
    target=TopicPartition("new", 5),
    topic_id="5f1c",
    producer=ProducerId(4001, 3),
    copied=Mark(900, 17, 12),
    verified=Mark(0, 5),
    is_open=True,
)
STATE = State(source_headers=True, partitions={PARTITION.source: PARTITION})


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "new" / "folder") as directory:
        assert directory.load() is None
        directory.save(STATE)
        assert directory.load() == STATE
        directory.save(State(source_headers=False))
    assert load_state(tmp_path / "new" / "folder") == State(source_headers=False)


def test_a_second_run_is_kept_out_until_the_first_one_ends(tmp_path: Path) -> None:
    def enter(folder: Path) -> None:
        with StateDirectory(folder):
            pass

    with StateDirectory(tmp_path), pytest.raises(FileError, match="another run is active here"):
        enter(tmp_path)
    enter(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot make the folder, because a file is in its place"):
        enter(tmp_path / "file")


def state_file(folder: Path) -> Path:
    """The newest state, alone, as it is between two runs."""
    [file] = folder.glob("migration-*.json")
    return file


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    for text, why in {
        "": "it is empty",
        "\0": "it is not JSON, or it is cut",
        "[" * 100_000: "it is not JSON, or it is cut",
        "[]": "it is no JSON object",
        "{}": "its format is None, and not spark-kafkawire migration 2",
        '{"format": "spark-kafkawire migration 3"}': "its format is spark-kafkawire migration 3, and not",
        '{"format": "spark-kafkawire migration 2", "logs": []}': "its checksum does not match its text",
        '{"format": 1, "format": 1}': "the key format appears twice",
        '{"format": NaN}': "NaN is no number",
    }.items():
        (tmp_path / "migration-1.json").write_text(text)
        said = rf"/migration-1\.json is not the state of a migration, .*: {why}"
        with pytest.raises(StateError, match=said):
            load_state(tmp_path)


def test_a_state_that_is_gone_is_not_taken_for_none_and_an_older_one_does_not_count(tmp_path: Path) -> None:
    older = replace(STATE, partitions={PARTITION.source: replace(PARTITION, copied=Mark(450, 8, 5))})
    with StateDirectory(tmp_path) as directory:
        directory.save(older)
    file = state_file(tmp_path)
    text = file.read_text()
    file.unlink()
    missing = r"migration-1\.json or a later one is missing; put the file back"
    with StateDirectory(tmp_path) as directory, pytest.raises(StateError, match=missing):
        directory.load()
    file.write_text(text)
    with StateDirectory(tmp_path) as directory:
        assert directory.load() == older
        directory.save(STATE)
        file.write_text(text)
        assert directory.load() == STATE


def test_of_two_runs_that_no_lock_keeps_apart_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that two machines share, and whose locks they do not."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with StateDirectory(tmp_path) as first, StateDirectory(tmp_path) as second:
        assert (first.load(), second.load()) == (None, None)
        first.save(STATE)
        other = replace(
            STATE, partitions={PARTITION.source: replace(PARTITION, producer=ProducerId(4002, 0))}
        )
        with pytest.raises(FileError, match=r"migration-1\.json already exists: does another run write here"):
            second.save(other)
        assert load_state(tmp_path) == STATE


@pytest.mark.parametrize("verified", [Mark(901, 17), Mark(900, 18)])
def test_a_state_whose_marks_run_backwards_is_refused(tmp_path: Path, verified: Mark) -> None:
    with StateDirectory(tmp_path) as directory:
        directory.save(STATE)
    change_state(
        tmp_path, lambda logs: logs[0].update(verified=[verified.source_offset, verified.target_offset, 0])
    )
    with pytest.raises(StateError, match="or damaged"):
        load_state(tmp_path)


VALUES = st.lists(st.none() | st.binary(max_size=4), max_size=30)


def cut(values: list[bytes | None], places: list[int]) -> list[pa.Array]:
    """The values as slices of one array."""
    array = binary(values)
    stops = sorted({0, len(values), *(location % (len(values) + 1) for location in places)})
    return [array.slice(start, stop - start) for start, stop in pairwise(stops)]


PLACES = st.lists(st.integers(0, 100), max_size=6)


@given(VALUES, PLACES, PLACES, st.integers(0, 30))
def test_what_is_there_is_matched_whatever_pieces_both_sides_come_in(
    values: list[bytes | None], source: list[int], target: list[int], there: int
) -> None:
    there = min(there, len(values))
    present = Present(cut(values[:there], target))
    assert sum(present.match(chunk) for chunk in cut(values, source)) == there
    assert present.is_exhausted
    assert present.matched_count == there


@given(VALUES, PLACES, PLACES, st.data())
def test_the_first_row_that_differs_is_named(
    values: list[bytes | None], source: list[int], target: list[int], data: st.DataObject
) -> None:
    if not values:
        return
    row = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:row], b"another", *values[row + 1 :]]
    present = Present(cut(changed, target))
    with pytest.raises(Differs) as caught:
        sum(present.match(chunk) for chunk in cut(values, source))
    assert caught.value.row == row


def test_more_than_the_source_has_is_left() -> None:
    present = Present([binary([b"a", b"b"])])
    assert present.match(binary([b"a"])) == 1
    assert not present.is_exhausted


@given(VALUES, PLACES, VALUES)
def test_a_digest_depends_on_the_values_and_not_on_their_cuts(
    values: list[bytes | None], places: list[int], others: list[bytes | None]
) -> None:
    digests = []
    for chunks in ([binary(values)], cut(values, places), [binary(others)]):
        digest = ValuesDigest()
        for chunk in chunks:
            digest.update(chunk)
        assert digest.count == sum(map(len, chunks))
        digests.append(digest.sha256)
    assert digests[0] == digests[1]
    assert (digests[0] == digests[2]) == (values == others)


ORIGIN = TopicPartition("größe", 2, 7)


def made(partition: TopicPartition = ORIGIN) -> pa.ListArray:
    return headers_of(partition, Columns(np.array([0, 90, 90]), np.array([0, 0, 1], np.int32)))


def test_headers_name_the_place_in_the_source() -> None:
    column = made()
    assert column.type == HEADERS
    assert [{pair["key"]: pair["value"] for pair in row} for row in column.to_pylist()] == [
        {
            "source.topic": "größe".encode(),
            "source.broker": b"7",
            "source.partition": b"2",
            "source.offset": offset,
            "source.index": index,
        }
        for offset, index in ((b"0", b"0"), (b"90", b"0"), (b"90", b"1"))
    ]


def test_messages_of_other_partitions_and_without_headers_are_not_from_this_one() -> None:
    for other in (
        TopicPartition("other", 2, 7),
        TopicPartition("größe", 1, 7),
        TopicPartition("größe", 2, 0),
    ):
        both = pa.concat_arrays([made(), made(other), made()])
        assert are_from(ORIGIN, both, 9).to_pylist() == [True] * 3 + [False] * 3 + [True] * 3
        assert are_from(ORIGIN, both.slice(2, 5), 5).to_pylist() == [True, False, False, False, True]
    foreign = pa.array([None, [], [("source.topic", "größe".encode())], [("source.topic", None)]], HEADERS)
    assert are_from(ORIGIN, foreign, 4).to_pylist() == [False] * 4
    assert are_from(ORIGIN, None, 2).to_pylist() == [False, False]
    assert are_from(ORIGIN, foreign.slice(0, 0), 0).to_pylist() == []
