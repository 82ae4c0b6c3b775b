"""A topic that is deleted and recreated, while its query runs or is stopped: each row of the table in
docs/data-loss.md. Streams as Spark before 4.2 asks for them: it does not tell where a batch starts."""

from __future__ import annotations

import itertools
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.errors import DataLossError
from spark_kafkawire.model import id_text
from spark_kafkawire.options import StreamOptions, read_options_of
from spark_kafkawire.planner.stream import StreamPartitions, StreamPlanner
from spark_kafkawire.planner.stream_offsets import ID_MARK
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.source.schema import read_schema
from spark_kafkawire.source.stream_reader import PositionStreamReader
from tests.records.batches import batch, record
from tests.support import librdkafka
from tests.support.cases import for_each
from tests.support.foreign import Record
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.sparks import READ_LIMITS
from tests.support.streaming import QUICK, Checkpoint, Killed, Query, available_now

#: The last versions before topics had ids.
_LAST_WITHOUT_IDS: Final = {modern.METADATA.key: 9, modern.FETCH.key: 12}


class RecreatingBroker(LogServer):
    """One broker with topics of one partition or more, whose records are texts."""

    def __init__(self, *, has_ids: bool) -> None:
        offered = dict(OFFERED)
        if not has_ids:
            offered |= {key: VersionRange(offered[key].min, last) for key, last in _LAST_WITHOUT_IDS.items()}
        self.logs: dict[str, list[MemoryLog]] = {}
        super().__init__(self.logs, offered=offered)

    def create(self, topic: str, *values: str) -> None:
        """Make a topic with another id than any before, and records in partition 0."""
        self.broker.topic_ids[topic] = uuid.uuid4()
        self.logs[topic] = [MemoryLog()]
        self.send(topic, *values)

    def delete(self, topic: str) -> None:
        """Make the topic one that no broker knows."""
        del self.logs[topic]

    def send(self, topic: str, *values: str, partition: int = 0) -> None:
        """Append records to a partition."""
        if values:
            records = [record(number, value.encode()) for number, value in enumerate(values)]
            self.log(topic, partition).append(batch(records))

    def log(self, topic: str, partition: int = 0) -> MemoryLog:
        """A partition's log."""
        return self.logs[topic][partition]


PAGE: Final = Path(__file__).parents[2] / "docs" / "data-loss.md"
#: The old topic's records; the new topic has as many or more when the query is started once more.
OLD_COUNT: Final = 10
GROWN_COUNT: Final = 20
#: How many records the new topic has when the query meets it.
COUNTS: Final = {"fewer": 4, "more": 15}
ERROR: Final = "error"

IDS, SIZES, MODES = ("with", "without"), ("fewer", "more"), ("strict", "lenient")
#: The lines of the table, by its first columns.
Reported = dict[tuple[str, str, str], str]


def table() -> Reported:
    """Results that the page gives for topic ids, the new topic's records, and failOnDataLoss."""
    lines = PAGE.read_text().partition("<!-- recreated topics -->")[2].strip().splitlines()
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in itertools.takewhile(lambda line: line.startswith("|"), lines)
    ]
    return {(ids, size, mode): reported for ids, size, mode, reported in rows[2:]}


TABLE: Final = table()


def values(name: str, start: int, stop: int) -> list[str]:
    return [f"{name}-{number}" for number in range(start, stop)]


def options(broker: RecreatingBroker, **others: str) -> dict[str, str]:
    common = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest"}
    return {**QUICK, **common, "subscribe": "t", **others}


def rows_or_error(query: Query) -> list[str]:
    """The values that batches have until there is nothing to read, or the error."""
    result: list[str] = []
    try:
        for rows in query.batches():
            result += [row["value"].decode() for row in rows]
    except DataLossError:
        result.append(ERROR)
    return sorted(result)


@pytest.fixture(params=IDS)
def ids(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(ids: str) -> Iterator[RecreatingBroker]:
    with RecreatingBroker(has_ids=ids == "with") as running:
        running.create("t", *values("old", 0, OLD_COUNT))
        yield running


def recreate(broker: RecreatingBroker, count: int) -> None:
    broker.delete("t")
    broker.create("t", *values("new", 0, count))


@READ_LIMITS
@for_each("restarts", [1, 2])
@for_each("mode", MODES)
@for_each("size", SIZES)
@for_each("state", ["running", "stopped"])
def test_each_story_of_the_table(
    broker: RecreatingBroker, ids: str, state: str, size: str, mode: str, restarts: int
) -> None:
    assert set(TABLE) == set(itertools.product(IDS, SIZES, MODES))
    broker.create("t", *values("old", 0, OLD_COUNT))
    checkpoint = Checkpoint()
    given = options(broker, failOnDataLoss=str(mode == "strict").lower())
    running = Query(checkpoint, **given)
    assert rows_or_error(running) == sorted(values("old", 0, OLD_COUNT))
    recreate(broker, COUNTS[size])
    runs = [rows_or_error(running)] if state == "running" else []
    runs.append(rows_or_error(Query(checkpoint, **given)))
    broker.send("t", *values("new", COUNTS[size], GROWN_COUNT))
    runs += [rows_or_error(Query(checkpoint, **given)) for _ in range(restarts - 1)]
    if restarts == 1 and state == "running":
        runs.append(rows_or_error(Query(checkpoint, **given)))
    read = sorted(value for rows in runs for value in rows)
    is_grown = restarts == 2 or state == "running"
    there = GROWN_COUNT if is_grown else COUNTS[size]
    outcome: dict[str, list[str]] = {
        "an error at each start": [ERROR] * len(runs),
        "its records from the first on": sorted(values("new", 0, there)),
        "its records from the old place on": sorted(values("new", OLD_COUNT, there)),
    }
    assert read == outcome[TABLE[ids, size, mode]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ids", ["with"], indirect=True)
def test_a_topic_that_is_recreated_after_its_batch_was_planned(broker: RecreatingBroker, mode: str) -> None:
    """The batch is run again from the checkpoint, where the old topic's id is."""
    checkpoint = Checkpoint()
    given = options(broker, failOnDataLoss=str(mode == "strict").lower())
    with pytest.raises(Killed):
        Query(checkpoint, **given).batch("written")
    recreate(broker, COUNTS["more"])
    runs = [rows_or_error(Query(checkpoint, **given)) for _ in range(2)]
    assert runs == (
        [[ERROR], [ERROR]] if mode == "strict" else [sorted(values("new", 0, COUNTS["more"])), []]
    )


@pytest.mark.parametrize("ids", ["with"], indirect=True)
def test_lenient_batch_of_a_recreated_topic_is_the_same_again(broker: RecreatingBroker) -> None:
    checkpoint = Checkpoint()
    given = options(broker, failOnDataLoss="false", maxOffsetsPerTrigger="3")
    rows_or_error(Query(checkpoint, **given))
    recreate(broker, OLD_COUNT)  # as many as before: the id alone tells
    with pytest.raises(Killed):
        Query(checkpoint, **given).batch("read")
    again = Query(checkpoint, **given)
    assert [row["value"] for row in again.batch() or ()] == [b"new-0", b"new-1", b"new-2"]
    assert rows_or_error(again) == sorted(values("new", 3, OLD_COUNT))


@pytest.mark.parametrize("ids", ["with"], indirect=True)
@pytest.mark.parametrize("blanks", [True, False], ids=["ours of before", "format(kafka)"])
def test_checkpoint_without_ids_gets_them_with_a_batch(broker: RecreatingBroker, blanks: bool) -> None:
    text = json.dumps({"t": {"0": OLD_COUNT}}, separators=None if blanks else (",", ":"))
    checkpoint = Checkpoint([text], 1)
    query = Query(checkpoint, **options(broker, minOffsetsPerTrigger="5", maxTriggerDelay="1h"))
    assert [*query.batches()] == [[]]
    assert [key for key in json.loads(checkpoint.offsets[-1]) if key.startswith(ID_MARK)]
    assert [*Query(checkpoint, **options(broker)).batches()] == []
    recreate(broker, COUNTS["more"])
    assert rows_or_error(Query(checkpoint, **options(broker))) == [ERROR]


@pytest.mark.parametrize("ids", ["with"], indirect=True)
def test_id_is_kept_without_broker(broker: RecreatingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a cluster is upgraded, its older brokers know no ids."""
    checkpoint = Checkpoint()
    rows_or_error(Query(checkpoint, **options(broker)))
    with monkeypatch.context() as patch:
        patch.setattr(StreamPartitions, "topic_ids", lambda *_: {})
        broker.send("t", "more")
        assert rows_or_error(Query(checkpoint, **options(broker))) == ["more"]
    recreate(broker, COUNTS["more"])
    assert rows_or_error(Query(checkpoint, **options(broker))) == [ERROR]


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("ids", ["with"], indirect=True)
def test_available_now_fails_at_a_recreated_topic(broker: RecreatingBroker, fail: str) -> None:
    running = available_now(Checkpoint(), **options(broker, failOnDataLoss=fail))
    recreate(broker, COUNTS["more"])
    reported = r"^the topic t was deleted and recreated: .*availableNow had planned to read"
    with pytest.raises(DataLossError, match=reported):
        running.batch()


def test_fallen_end_is_waited_for(broker: RecreatingBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that is behind for longer than it is looked for holds up its own log alone."""
    broker.send("t", *values("old", OLD_COUNT, 24))
    broker.create("other")
    checkpoint = Checkpoint()
    given = options(broker, subscribe="t,other", failOnDataLoss="false")
    lenient = Query(checkpoint, **given)
    assert rows_or_error(lenient) == sorted(values("old", 0, 24))
    broker.log("t").stop_offset = 11
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert rows_or_error(lenient) == []
        broker.send("other", "o-0")
        assert rows_or_error(lenient) == ["o-0"]
        lenient = Query(checkpoint, **given)
        broker.send("other", "o-1")
        assert rows_or_error(lenient) == ["o-1"]
        assert "the end of t 0 was changed from 24 to 11: " in caplog.text
        assert "no longer on hold" not in caplog.text
        broker.log("t").stop_offset = 24
        assert rows_or_error(lenient) == []
    assert "1 partition no longer on hold, first t 0" in caplog.text
    broker.send("t", "later")
    assert rows_or_error(lenient) == ["later"]


def test_report_a_held_partition(broker: RecreatingBroker, caplog: pytest.LogCaptureFixture) -> None:
    lenient = Query(Checkpoint(), **options(broker, failOnDataLoss="false"))
    rows_or_error(lenient)
    broker.log("t").stop_offset = 4
    planner = lenient.reader._planner
    assert isinstance(planner, StreamPlanner)
    slept: list[float] = []
    now_s = [1000.0]
    planner._judge._sleep, planner._judge._clock = slept.append, lambda: now_s[0]
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        for _ in range(5):
            assert lenient.batch() is None
        assert (len(slept), len(caplog.records)) == (3, 1)
        now_s[0] += 60
        assert lenient.batch() is None
    assert [item.getMessage() for item in caplog.records] == [
        "the end of t 0 was changed from 10 to 4: a topic was deleted or recreated, or a partition lost its "
        "end, or a broker is behind: nothing proves which. The query keeps its position and reads nothing "
        "there until the partition reaches beyond it again, or kafkawire checkpoints CHECKPOINT --place sets "
        "another one (docs/data-loss.md)"
    ] * 2


@pytest.mark.parametrize("fail", ["true", "false"])
def test_fallen_end_in_the_checkpoint_is_an_error(broker: RecreatingBroker, fail: str) -> None:
    checkpoint = Checkpoint()
    rows_or_error(Query(checkpoint, **options(broker)))
    broker.log("t").stop_offset = 4
    reported = (
        r"^the end of t 0 was changed from 10 to 4: .*, or a broker is behind: nothing proves which. The "
        "query does not continue from its position until kafkawire checkpoints CHECKPOINT --place sets "
        "another "
    )
    with pytest.raises(DataLossError, match=reported):
        Query(checkpoint, **options(broker)).batch()
    broker.log("t").stop_offset = 10
    with pytest.raises(DataLossError, match=reported):
        Query(checkpoint, **options(broker, failOnDataLoss=fail)).batch()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_available_now_with_a_broker_that_is_behind(broker: RecreatingBroker, fail: str) -> None:
    checkpoint = Checkpoint()
    given = options(broker, failOnDataLoss=fail)
    assert rows_or_error(available_now(checkpoint, **given)) == sorted(values("old", 0, OLD_COUNT))
    broker.log("t").stop_offset = 4
    running = available_now(checkpoint, **given)
    broker.log("t").stop_offset = OLD_COUNT
    assert rows_or_error(running) == []
    broker.send("t", "later")
    assert rows_or_error(available_now(checkpoint, **given)) == ["later"]


@pytest.mark.parametrize("trigger", [Query, available_now], ids=["running", "availableNow"])
def test_unknown_partition_is_not_read(broker: RecreatingBroker, trigger: Callable[..., Query]) -> None:
    """A broker that is behind has not heard yet of partitions that were added."""
    broker.logs["t"].append(MemoryLog())
    broker.send("t", "second", partition=1)
    checkpoint = Checkpoint()
    given = options(broker, failOnDataLoss="false")
    assert len(rows_or_error(trigger(checkpoint, **given))) == OLD_COUNT + 1
    log = broker.logs["t"].pop()
    lenient = trigger(checkpoint, **given)
    broker.send("t", "more")
    if trigger is Query:
        assert rows_or_error(lenient) == ["more"]
    broker.logs["t"].append(log)
    assert rows_or_error(lenient) == []
    broker.send("t", "third", partition=1)
    assert "third" in rows_or_error(trigger(checkpoint, **given))
    assert rows_or_error(trigger(checkpoint, **given)) == []
    assert json.loads(checkpoint.offsets[-1])["t"] == {"0": OLD_COUNT + 1, "1": 2}


# Spark before 4.2


@pytest.fixture
def servers(noida: NoidaBroker) -> str:
    return noida.bootstrap_servers


class OldQuery:
    """One run of a query on a checkpoint, with the calls of Spark 4.0 and 4.1 in their order."""

    def __init__(self, checkpoint: Checkpoint, **options: str) -> None:
        raw = {name.replace("__", "."): value for name, value in (QUICK | options).items()}
        schema = read_schema(read_options_of(raw))
        self._reader = PositionStreamReader(StreamOptions.parse(raw), schema)
        self._checkpoint = checkpoint
        if checkpoint.offsets:  # the end of the last batch, also of one that was not committed
            last = json.loads(checkpoint.offsets[-1])
            assert self._reader.partitions(last, last) == []

    def plan(self) -> bool:
        """Write down where the next batch ends; whether there is one."""
        done = self._checkpoint.offsets
        end = json.dumps(self._reader.latestOffset())
        if done and end == done[-1]:
            return False
        done.append(end)
        return True

    def read(self) -> list[bytes]:
        """The values of the batch that was written down last, sorted."""
        offsets: list[Any] = [json.loads(text) for text in self._checkpoint.offsets[-2:]]
        start = offsets[0] if len(offsets) > 1 else json.loads(json.dumps(self._reader.initialOffset()))
        result = [
            value
            for partition in self._reader.partitions(start, offsets[-1])
            for batch in self._reader.read(partition)
            for value in batch.column("value").to_pylist()
        ]
        self._checkpoint.commits = len(self._checkpoint.offsets)
        return sorted(result)

    def batches(self) -> list[list[bytes]]:
        result = []
        while self.plan():
            result.append(self.read())
        return result


def produce(servers: str, topic: str, *values: bytes) -> None:
    librdkafka.produce(servers, topic, [Record(value, partition=n % 2) for n, value in enumerate(values)])


def test_batches_go_to_the_end_and_a_restart_goes_on_there(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    options = {"kafka__bootstrap__servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    produce(servers, topic, b"a", b"b")
    assert OldQuery(checkpoint, **options).plan()
    produce(servers, topic, b"c")
    query = OldQuery(checkpoint, **options)
    assert query.read() == [b"a", b"b"]  # the batch that was not done
    assert query.batches() == [[b"c"]]
    produce(servers, topic, b"d", b"e")
    assert query.batches() == [[b"d", b"e"]]
    produce(servers, topic, b"f")
    again = OldQuery(checkpoint, **options)
    assert [values for values in again.batches() if values] == [[b"f"]]


def test_limits_go_on_after_every_kind_of_restart(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    values = [b"%03d" % number for number in range(20)]
    options = {
        "kafka__bootstrap__servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
        "queryTrigger": "processingTime",
    }
    produce(servers, topic, *values)
    result = []
    assert OldQuery(checkpoint, **options).plan()
    result.append(OldQuery(checkpoint, **options).read())  # the first batch, which was not committed
    query = OldQuery(checkpoint, **options)  # all are committed
    assert query.plan()
    result.append(query.read())
    assert query.plan()
    again = OldQuery(checkpoint, **options)  # the last one is not
    result.append(again.read())
    result += again.batches()
    assert [len(item) for item in result] == [4] * 5
    assert sorted(value for item in result for value in item) == values
    assert OldQuery(checkpoint, **options).batches() == []
    produce(servers, topic, *values)
    assert [len(item) for item in OldQuery(checkpoint, **options).batches()] == [4] * 5


def test_a_batch_that_waits_for_more_records_goes_on_after_a_restart(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    options = {
        "kafka__bootstrap__servers": servers,
        "subscribe": topic,
        "minOffsetsPerTrigger": "4",
        "queryTrigger": "processingTime",
    }
    assert OldQuery(checkpoint, **options).batches() == [[]]
    query = OldQuery(checkpoint, **options)
    produce(servers, topic, b"a", b"b")
    assert query.batches() == [[b"a", b"b"]]  # the first one of a run does not wait
    produce(servers, topic, b"c", b"d")
    assert query.batches() == []
    produce(servers, topic, b"e", b"f")
    assert query.batches() == [[b"c", b"d", b"e", b"f"]]


def test_a_restart_without_its_position_fails_and_reads_nothing_again(servers: str) -> None:
    topic = librdkafka.create_topic(servers, 2)
    options = {
        "kafka__bootstrap__servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
        "queryTrigger": "processingTime",
    }
    produce(servers, topic, *(b"%03d" % number for number in range(20)))
    done = Checkpoint()
    assert OldQuery(done, **options).plan()
    query = OldQuery(Checkpoint(), **options)
    assert len(query.batches()) == 5
    other = OldQuery(Checkpoint(), **options)
    assert other.plan()  # no Spark calls so: it would plan a batch that ends before its start
    with pytest.raises(DataLossError, match="is behind: nothing proves which"):
        other._reader.partitions(json.loads(query._checkpoint.offsets[-1]), json.loads(done.offsets[-1]))


def test_what_comes_after_the_first_look_of_a_query_from_the_end_is_read(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    options = {"kafka__bootstrap__servers": servers, "subscribe": topic, "startingOffsets": "latest"}
    produce(servers, topic, b"before")
    assert OldQuery(checkpoint, **options).plan()
    produce(servers, topic, b"a", b"b")
    again = OldQuery(checkpoint, **options)
    assert again.read() == []
    assert again.batches() == [[b"a", b"b"]]


def recreating_options(broker: RecreatingBroker, fail: str = "true") -> dict[str, str]:
    given = {"kafka__bootstrap__servers": broker.bootstrap_servers, "subscribe": "t"}
    return {**given, "startingOffsets": "earliest", "failOnDataLoss": fail}


@pytest.mark.parametrize("count", [2, 7], ids=["fewer", "more"])
def test_a_topic_that_was_recreated_while_the_query_was_stopped(count: int) -> None:
    checkpoint, new = Checkpoint(), [f"new-{number}" for number in range(count)]
    with RecreatingBroker(has_ids=True) as broker:
        broker.create("t", "a", "b", "c", "d")
        assert OldQuery(checkpoint, **recreating_options(broker)).batches() == [[b"a", b"b", b"c", b"d"]]
        assert OldQuery(checkpoint, **recreating_options(broker)).batches() == []
        broker.delete("t")
        broker.create("t", *new)
        for _ in range(2):
            with pytest.raises(DataLossError, match=r"^the topic t was deleted and recreated"):
                OldQuery(checkpoint, **recreating_options(broker)).plan()
        lenient = OldQuery(checkpoint, **recreating_options(broker, "false"))
        assert lenient.batches() == [[value.encode() for value in new]]
        broker.send("t", "later")
        assert lenient.batches() == [[b"later"]]


@READ_LIMITS
@pytest.mark.parametrize("has_ids", [True, False])
def test_a_deleted_topic_is_reported_as_deleted_and_not_as_another_name(has_ids: bool) -> None:
    with RecreatingBroker(has_ids=has_ids) as broker:
        broker.create("t", *values("old", 0, OLD_COUNT))
        broker.create("tt", "other")  # a similar name
        checkpoints = [Checkpoint(), Checkpoint()]
        queries = [Query(checkpoint, **options(broker)) for checkpoint in checkpoints]
        for query in queries:
            assert len(rows_or_error(query)) == OLD_COUNT
        [planned] = Query(Checkpoint(), **options(broker)).reader.partitions({}, {"t": {"0": OLD_COUNT}})
        topic_id = id_text(broker.broker.topic_ids["t"])
        broker.delete("t")
        queries[1] = available_now(checkpoints[1], **options(broker))
        reason = f"; the topic t with the id {topic_id} was deleted" if has_ids else ": a topic was deleted"
        for query in queries:
            with pytest.raises(DataLossError, match=f"^t 0 at offset 10 no longer exists{reason}"):
                query.batch()
        if has_ids:
            with pytest.raises(
                DataLossError, match=f"is gone: the one with the id {topic_id}, .*was deleted"
            ):
                list(queries[0].reader.read(planned))
