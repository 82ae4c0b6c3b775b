"""Options of a read in the order of its keys: what they become, and what each bad one is told."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import KeyOrder, PartitionerCheck, ReadOptions, StreamOptions

MODERN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
V07 = {"broker.list": "0:h:1", "subscribe": "t"}
GROWN = '{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}'
COUNTS = '{"t":[{"partitions":2},{"partitions":4}]}'
OLD = '{"t":[{"partitions":{"1":1}},{"partitions":{"0":2,"1":1},"boundaries":{"1-0":9}}]}'


def order(base: Mapping[str, str] = MODERN, **given: str) -> KeyOrder:
    found = ReadOptions.parse({**base, "keyOrder": "true", **given}).key_order
    assert found is not None
    return found


def refusal(base: Mapping[str, str] = MODERN, **given: str) -> str:
    with pytest.raises(OptionError) as error:
        ReadOptions.parse({**base, "keyOrder": "true", **given})
    message = str(error.value)
    assert message.isprintable()
    return message


def test_a_read_has_no_order_of_keys_unless_it_is_asked_for() -> None:
    assert ReadOptions.parse(MODERN).key_order is None
    assert ReadOptions.parse({**MODERN, "keyOrder": "false"}).key_order is None


def test_boundaries_are_of_the_partitions_before() -> None:
    found = order(partitionEpochs=GROWN)
    assert found.topics["t"].counts == (2, 4)
    assert found.topics["t"].boundaries == ({TopicPartition("t", 0): 70, TopicPartition("t", 1): 65},)
    assert (found.check, found.moments_ms) == (PartitionerCheck.STRICT, ())
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_stream_takes_the_same() -> None:
    given = {**MODERN, "keyOrder": "true", "partitionEpochs": GROWN}
    assert StreamOptions.parse(given).read.key_order == order(partitionEpochs=GROWN)


def test_moments_stand_for_boundaries_of_topics_that_grew_as_often() -> None:
    found = order(
        partitionEpochs='{"t":[{"partitions":2},{"partitions":4}],"u":[{"partitions":3}]}',
        expansionTimestamp=" 5 ",
    )
    assert (found.moments_ms, found.topics["t"].boundaries) == ((5,), None)
    assert found.topics["u"].counts == (3,)


def test_a_list_of_07_is_that_of_its_brokers() -> None:
    found = order(V07, partitionEpochs=OLD)
    assert [[log.name for log in logs] for logs in found.topics["t"].lists] == [
        ["1-0"],
        ["0-0", "0-1", "1-0"],
    ]
    assert found.topics["t"].boundaries == ({TopicPartition("t", 0, 1): 9},)
    assert found.check is PartitionerCheck.NONE


@pytest.mark.parametrize("value", ["strict", "true", "false"])
def test_the_check_is_the_one_that_is_asked_for(value: str) -> None:
    assert order(partitionEpochs=GROWN, verifyPartitioner=value).check.value == value


@pytest.mark.parametrize("name", ["partitionEpochs", "expansionTimestamp", "verifyPartitioner"])
def test_what_is_for_the_order_of_keys_alone_is_refused_without_it(name: str) -> None:
    assert refusal(MODERN, keyOrder="false", **{name: "1"}) == (
        f"option {name} is for keyOrder=true: set that, too, or leave it out"
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "option keyOrder: no broker tells when partitions were added"),
        ({"minPartitions": "8"}, "option minPartitions splits what keyOrder=true reads one after the other"),
        ({"maxRecordsPerPartition": "8"}, "option maxRecordsPerPartition splits"),
        ({"partitionEpochs": COUNTS}, "t grew 1 times, and nothing says where its partitions stood then"),
        ({"partitionEpochs": GROWN, "expansionTimestamp": "5"}, "boundaries are in partitionEpochs: leave"),
        ({"partitionEpochs": COUNTS, "expansionTimestamp": "5,6"}, "grew 1 times by partitionEpochs, and"),
        ({"partitionEpochs": COUNTS, "expansionTimestamp": "6,5"}, "'6,5' is not in the order of time"),
        ({"partitionEpochs": COUNTS, "expansionTimestamp": "x"}, "'x' is not milliseconds since 1970"),
        ({"partitionEpochs": GROWN, "verifyPartitioner": "x"}, "'x' is not false or true or strict"),
    ],
)
def test_options_that_contradict_or_lack_each_other_are_told(given: dict[str, str], told: str) -> None:
    assert told in refusal(MODERN, **given)


def test_moments_alone_are_for_batch_reads_that_check_keys() -> None:
    found = order(expansionTimestamp="5,7")
    assert (found.topics, found.moments_ms) == ({}, (5, 7))
    assert refusal(expansionTimestamp="5", verifyPartitioner="false") == (
        "option expansionTimestamp: how many partitions there were is found in the log then, and only keys "
        "prove it: give partitionEpochs, or leave verifyPartitioner=false out"
    )
    with pytest.raises(OptionError, match=r"^option expansionTimestamp: a stream needs partitionEpochs, too"):
        StreamOptions.parse({**MODERN, "keyOrder": "true", "expansionTimestamp": "5"})


def test_named_partitions_alone_are_refused() -> None:
    base = {"kafka.bootstrap.servers": "h:1", "assign": '{"t":[0]}'}
    assert refusal(base, partitionEpochs=GROWN) == (
        "option assign: a key may have been in any partition, and keyOrder=true reads them all: name the "
        "topics with subscribe, or leave keyOrder out"
    )


@pytest.mark.parametrize("name", ["expansionTimestamp", "verifyPartitioner"])
def test_07_has_no_times_and_no_keys(name: str) -> None:
    assert f"option {name} means nothing to Kafka 0.7" in refusal(V07, partitionEpochs=OLD, **{name: "5"})


@pytest.mark.parametrize(
    "epochs",
    [
        "2",
        [],
        [2],
        [{"partitions": 2, "offsets": {}}],
        [{"boundaries": {}}],
        [{"partitions": "2"}],
        [{"partitions": True}],
        [{"partitions": 0}],
        [{"partitions": 10**9}],
        [{"partitions": {"0": 1}}],
        [{"partitions": 1}, {"partitions": 2, "boundaries": [7]}],
        [{"partitions": 1}, {"partitions": 2, "boundaries": {"0": -1}}],
        [{"partitions": 1}, {"partitions": 2, "boundaries": {"0": 1.5}}],
        [{"partitions": 1}, {"partitions": 2, "boundaries": {"0": 2**63}}],
    ],
)
def test_malformed_epochs_are_shown_beside_well_formed_ones(epochs: object) -> None:
    told = refusal(partitionEpochs=json.dumps({"t": epochs}))
    assert told.startswith("option partitionEpochs: '{")
    assert told.endswith(f"is not of the form {GROWN}")


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"t":[{"partitions":NaN}]}'])
def test_what_is_no_object_of_json_is_told(text: str) -> None:
    assert refusal(partitionEpochs=text).endswith(f"is not of the form {GROWN}")


@pytest.mark.parametrize(
    ("epochs", "told"),
    [
        ([(4, None), (2, {"0": 1})], "t: each epoch must have all partitions of the one before, and more"),
        ([(2, None), (2, {"0": 1})], "t: each epoch must have all partitions of the one before, and more"),
        ([(2, {"0": 1})], "t: nothing is before the first epoch: boundaries are of the ones after it"),
        (
            [(2, None), (4, {"0": 1})],
            "t: boundaries must name the 2 partitions of the epoch before, 0 to 1, each",
        ),
        ([(1, None), (4, {"0": 1, "1": 1})], "t: boundaries must name the 1 partitions"),
        ([(1, None), (4, {"00": 1})], "t: boundaries must name the 1 partitions"),
        (
            [(1, None), (2, {"0": 9}), (3, {"0": 8, "1": 0})],
            "t: the boundaries of t 0 run backwards, 9 and 8",
        ),
        (
            [(1, None), (2, {"0": 9}), (3, None)],
            "t: give the boundaries of each epoch but the first, or of none",
        ),
    ],
)
def test_epochs_that_cannot_be_are_told(epochs: list[tuple[int, dict[str, int] | None]], told: str) -> None:
    given = [
        {"partitions": count, **({} if boundaries is None else {"boundaries": boundaries})}
        for count, boundaries in epochs
    ]
    assert refusal(partitionEpochs=json.dumps({"t": given})).startswith(f"option partitionEpochs: {told}")


@pytest.mark.parametrize("partitions", [2, {}, {"00": 1}, {"0": 0}, {"x": 1}, {"0": None}])
def test_malformed_lists_of_07_are_told(partitions: object) -> None:
    told = refusal(V07, partitionEpochs=json.dumps({"t": [{"partitions": partitions}]}))
    assert 'is not of the form {"t":[{"partitions":{"0":1}}' in told
