"""Streams as Spark before 4.2 asks for them: it does not tell where a batch starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_kafkawire.errors import DataLossError, OptionError
from spark_kafkawire.options import StreamOptions, read_options_of
from spark_kafkawire.source.schema import read_schema
from spark_kafkawire.source.stream_reader import UnlimitedStreamReader
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.recreated import RecreatingBroker
from tests.support.streaming import QUICK, Checkpoint


@pytest.fixture
def servers(noida: NoidaBroker) -> str:
    return noida.bootstrap_servers


class Query:
    """One run of a query on a checkpoint, with the calls of Spark 4.0 and 4.1 in their order."""

    def __init__(self, checkpoint: Checkpoint, **options: str) -> None:
        raw = {name.replace("__", "."): value for name, value in (QUICK | options).items()}
        schema = read_schema(read_options_of(raw))
        self._reader = UnlimitedStreamReader(StreamOptions.parse(raw), schema)
        self._checkpoint = checkpoint

    def plan(self) -> bool:
        """Write down where the next batch ends; whether there is one."""
        done = self._checkpoint.offsets
        if not done:
            self._reader.initialOffset()
        end = json.dumps(self._reader.latestOffset())
        if done and end == done[-1]:
            return False
        done.append(end)
        return True

    def read(self) -> list[bytes]:
        """The values of the batch that was written down last, sorted."""
        offsets: list[Any] = [json.loads(text) for text in self._checkpoint.offsets[-2:]]
        start = offsets[0] if len(offsets) > 1 else json.loads(json.dumps(self._reader.initialOffset()))
        found = [
            value
            for partition in self._reader.partitions(start, offsets[-1])
            for batch in self._reader.read(partition)
            for value in batch.column("value").to_pylist()
        ]
        self._checkpoint.commits = len(self._checkpoint.offsets)
        return sorted(found)

    def batches(self) -> list[list[bytes]]:
        found = []
        while self.plan():
            found.append(self.read())
        return found


def produce(servers: str, topic: str, *values: bytes) -> None:
    librdkafka.produce(servers, topic, [Record(value, partition=n % 2) for n, value in enumerate(values)])


def test_batches_go_to_the_end_and_a_restart_goes_on_there(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    options = {"kafka__bootstrap__servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    produce(servers, topic, b"a", b"b", b"c")
    query = Query(checkpoint, **options)
    assert query.batches() == [[b"a", b"b", b"c"]]
    produce(servers, topic, b"d", b"e")
    assert query.batches() == [[b"d", b"e"]]
    produce(servers, topic, b"f")
    again = Query(checkpoint, **options)
    assert [values for values in again.batches() if values] == [[b"f"]]


def test_a_batch_that_was_not_done_is_read_again_before_anything_else(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    options = {"kafka__bootstrap__servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    produce(servers, topic, b"a", b"b")
    assert Query(checkpoint, **options).plan()
    produce(servers, topic, b"c")
    again = Query(checkpoint, **options)
    assert again.read() == [b"a", b"b"]
    assert again.batches() == [[b"c"]]


def test_what_comes_after_the_first_look_of_a_query_from_the_end_is_read(servers: str) -> None:
    topic, checkpoint = librdkafka.create_topic(servers, 2), Checkpoint()
    options = {"kafka__bootstrap__servers": servers, "subscribe": topic, "startingOffsets": "latest"}
    produce(servers, topic, b"before")
    assert Query(checkpoint, **options).plan()
    produce(servers, topic, b"a", b"b")
    again = Query(checkpoint, **options)
    assert again.read() == []
    assert again.batches() == [[b"a", b"b"]]


def test_a_topic_that_is_gone_after_a_restart_is_a_loss(servers: str) -> None:
    topics, checkpoint = [librdkafka.create_topic(servers, 2) for _ in range(2)], Checkpoint()
    options = {"kafka__bootstrap__servers": servers, "startingOffsets": "earliest"}
    pattern = {"subscribePattern": "|".join(topics)}
    for topic in topics:
        produce(servers, topic, b"a")
    assert Query(checkpoint, **options, **pattern).batches() == [[b"a", b"a"]]
    librdkafka.delete_topic_and_wait(servers, topics[0])
    produce(servers, topics[1], b"b")
    again = Query(checkpoint, **options, **pattern)
    assert again.plan()
    with pytest.raises(DataLossError, match=f"{topics[0]}.*no longer exist"):
        again.read()


def recreating_options(broker: RecreatingBroker, fail: str = "true") -> dict[str, str]:
    given = {"kafka__bootstrap__servers": broker.bootstrap_servers, "subscribe": "t"}
    return {**given, "startingOffsets": "earliest", "failOnDataLoss": fail}


@pytest.mark.parametrize("count", [2, 7], ids=["fewer", "more"])
def test_a_topic_that_was_recreated_while_the_query_was_stopped(count: int) -> None:
    checkpoint, new = Checkpoint(), [f"new-{number}" for number in range(count)]
    with RecreatingBroker(has_ids=True) as broker:
        broker.create("t", "a", "b", "c", "d")
        assert Query(checkpoint, **recreating_options(broker)).batches() == [[b"a", b"b", b"c", b"d"]]
        assert Query(checkpoint, **recreating_options(broker)).batches() == []
        broker.delete("t")
        broker.create("t", *new)
        first = Query(checkpoint, **recreating_options(broker))
        assert first.plan()
        reported = "^the topic t was deleted and recreated"
        with pytest.raises(DataLossError, match=reported):
            first.read()
        broker.send("t", "later")
        with pytest.raises(DataLossError, match=reported):  # the batch is in the offset log
            Query(checkpoint, **recreating_options(broker)).read()
        lenient = Query(checkpoint, **recreating_options(broker, "false"))
        assert lenient.read() == [value.encode() for value in new]
        assert lenient.batches() == [[b"later"]]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_an_end_that_falls_while_the_query_was_stopped_is_an_error_of_its_batch(fail: str) -> None:
    """The first look after a restart does not know where the query stands."""
    checkpoint = Checkpoint()
    with RecreatingBroker(has_ids=True) as broker:
        broker.create("t", "a", "b", "c", "d")
        assert Query(checkpoint, **recreating_options(broker)).batches() == [[b"a", b"b", b"c", b"d"]]
        broker.log("t").stop_offset = 2
        behind = Query(checkpoint, **recreating_options(broker, fail))
        assert behind.plan()
        broker.log("t").stop_offset = 4
        for query in (behind, Query(checkpoint, **recreating_options(broker, fail))):
            with pytest.raises(
                DataLossError, match=r"^the end of t 0 was changed from 4 to 2: .* proves which"
            ):
                query.read()


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_refused(servers: str, limit: str) -> None:
    options = {"kafka__bootstrap__servers": servers, "subscribe": "t", limit: "10"}
    with pytest.raises(OptionError, match=r"maxOffsetsPerTrigger.* need Spark 4\.2 or later"):
        Query(Checkpoint(), **options)
