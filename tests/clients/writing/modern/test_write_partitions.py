"""Partitions that a topic offers to a write, and rows that are refused before anything is sent."""

from __future__ import annotations

import pickle
import random
import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.writing import modern, v07, write_partitions_type
from spark_kafkawire.clients.writing.modern.producer import check_records
from spark_kafkawire.clients.writing.partitioner import STRATEGIES, Partitioner
from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.errors import RowError, UnknownTopicError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.records.columns import HEADERS
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records
from tests.support import kafka_python, librdkafka
from tests.support.cases import for_each, forget_all
from tests.support.foreign import Record
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.producing import int64, options_of, records, targets
from tests.support.writing import binary

KEYS = [b"k%d" % number for number in range(40)] + [b"", b"\x00", "größe".encode()]


def test_the_discovery_option_chooses() -> None:
    assert write_partitions_type(options_of("a:1")) is modern.ModernWritePartitions
    assert write_partitions_type(WriteOptions.parse({"zookeeper.connect": "a:1"})) is v07.V07WritePartitions


@for_each("topic", ["", ".", "..", "a/b", "a b", "größe", "a" * 250, "a\n"])
def test_names_that_brokers_refuse_have_a_fault(topic: str) -> None:
    assert modern.ModernWritePartitions.topic_fault(topic)


@pytest.mark.parametrize("topic", ["a", "A.b_c-9", "...", "a" * 249, "__consumer_offsets"])
def test_names_that_brokers_take_have_none(topic: str) -> None:
    assert modern.ModernWritePartitions.topic_fault(topic) is None


def test_all_partitions_are_choices_also_those_without_a_leader(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=11)
    mock_cluster.set_leader("t", 3, -1)
    result = targets(mock_cluster.bootstrap_servers)
    assert [tp.name for tp in result.selectable("t")] == [str(number) for number in range(11)]
    assert result.addressable("t") == result.selectable("t")


def test_rows_without_keys_go_to_partitions_that_have_a_leader(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=4)
    mock_cluster.set_leader("t", 3, -1)
    result = targets(mock_cluster.bootstrap_servers)
    assert [tp.name for tp in result.available("t")] == ["0", "1", "2"]
    travelled = pickle.loads(pickle.dumps(result.restrict_to_topic("t")))
    mock_cluster.set_leader("t", 3, 1)
    assert travelled.available("t") == result.available("t"), "tasks go by what the driver saw"
    assert len(targets(mock_cluster.bootstrap_servers).available("t")) == 4
    drawn = Partitioner(result, random.Random())
    seen = {tp.partition for _ in range(40) for tp, _ in drawn.split(Rows(records([b"x" * 20_000]), "t"))}
    assert seen == {0, 1, 2}


def test_rows_without_keys_prefer_leaders_in_the_rack_of_the_task(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock_cluster.create_topic("t", partitions=6)
    for broker in (1, 2):
        mock_cluster.set_rack(broker, f"rack {broker}")
    for partition in range(6):
        mock_cluster.set_leader("t", partition, 1 + partition % 3)
    mock_cluster.set_leader("t", 1, -1)
    # Spark's executors, each in its rack, get what the driver saw.
    given = targets(
        mock_cluster.bootstrap_servers, clientRack="env:RACK", kafka__partitioner__rack__aware="true"
    )
    travelling = pickle.dumps(given.restrict_to_topic("t"))
    for rack, expected in [("rack 1", [0, 3]), ("rack 2", [4]), ("rack 3", [0, 2, 3, 4, 5]), ("", None)]:
        monkeypatch.setenv("RACK", rack)
        result = pickle.loads(travelling)
        expected = expected or [0, 2, 3, 4, 5]
        assert [tp.partition for tp in result.available("t")] == expected
        assert len(result.selectable("t")) == 6, "keys choose among all"
        drawn = Partitioner(result, random.Random())
        assert {
            tp.partition for _ in range(60) for tp, _ in drawn.split(Rows(records([b"x" * 20_000]), "t"))
        } == set(expected)
        forget_all()


def test_where_no_partition_has_a_leader_all_may_get_rows(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    for partition in range(2):
        mock_cluster.set_leader("t", partition, -1)
    assert len(targets(mock_cluster.bootstrap_servers).available("t")) == 2


def test_all_tasks_agree_on_the_partitions_that_the_driver_saw(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    seen = pickle.dumps(targets(noida.bootstrap_servers).restrict_to_topic(topic))
    noida.add_partitions(topic, 5)
    assert len(pickle.loads(seen).selectable(topic)) == 2
    assert len(targets(noida.bootstrap_servers).selectable(topic)) == 5


def test_a_topic_that_brokers_do_not_make_is_an_error_after_the_wait(mock_cluster: MockCluster) -> None:
    mock_cluster.set_topic_error("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    began_s = time.monotonic()
    with pytest.raises(UnknownTopicError) as raised:
        targets(mock_cluster.bootstrap_servers, kafka__max__block__ms=200).selectable("nope")
    assert time.monotonic() - began_s >= 0.2
    assert str(raised.value).startswith(
        "topic 'nope' is not there after 0.2 s (kafka.max.block.ms), and the brokers do not make it"
    )


def test_report_a_mistyped_topic_with_those_that_look_alike(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("events")
    mock_cluster.set_topic_error("evnts", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with pytest.raises(UnknownTopicError, match=r"; create it; did you mean events\?: "):
        targets(mock_cluster.bootstrap_servers, kafka__max__block__ms=200).selectable("evnts")


def test_a_topic_that_is_missing_fails_where_rows_come_and_is_waited_for_once(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.set_topic_error("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    planned = targets(mock_cluster.bootstrap_servers, kafka__max__block__ms=200).restrict_to_topic("nope")
    assert "topic 'nope' is not there after 0.2 s" in caplog.text
    mock_cluster.start_request_tracking()
    with pytest.raises(UnknownTopicError, match="topic 'nope' is not there after"):
        pickle.loads(pickle.dumps(planned)).selectable("nope")
    assert not mock_cluster.requests()


def test_a_null_topic_and_a_row_that_is_too_large_are_refused() -> None:
    options = options_of("127.0.0.1:1", kafka__max__request__size=200)
    result = modern.ModernWritePartitions.discover(options)
    with pytest.raises(RowError, match=r"^row 1: topic is null"):
        result.check(Rows(records([b"", b""]), binary([b"t", None]).cast("string")), options)
    with pytest.raises(RowError, match=r"^row 0: its record of 287 bytes"):
        result.check(Rows(records([b"x" * 200]), "t"), options)
    result.check(Rows(records([None]), "t"), options)


def keys_by_partition(noida: NoidaBroker, topic: str, partitions: int) -> list[set[bytes | None]]:
    topic_partitions = [(topic, partition) for partition in range(partitions)]
    result = librdkafka.consume_partitions(noida.bootstrap_servers, topic_partitions)
    return [{record.key for record in result[partition]} for partition in topic_partitions]


@pytest.mark.parametrize("partitions", [5])
@pytest.mark.parametrize("name", ["murmur2", "consistent", "consistent_random"])
def test_keys_go_where_librdkafkas_partitioner_puts_them(
    noida: NoidaBroker, name: str, partitions: int
) -> None:
    keys = KEYS if name != "consistent_random" else [key for key in KEYS if key]
    topic = noida.create_topic(partitions)
    sent = [Record(b"", key, partition=-1) for key in keys]
    librdkafka.produce(noida.bootstrap_servers, topic, sent, partitioner=name)
    assert ours(noida, topic, keys, name, partitions) == keys_by_partition(noida, topic, partitions)


def test_keys_go_where_javas_and_kafka_pythons_producers_put_them(noida: NoidaBroker) -> None:
    topic = noida.create_topic(5)
    sent: list[Record] = [Record(b"", key, partition=None) for key in KEYS]  # type: ignore[arg-type]
    kafka_python.produce(noida.bootstrap_servers, topic, sent)
    assert ours(noida, topic, KEYS, "murmur2", 5) == keys_by_partition(noida, topic, 5)


def ours(
    noida: NoidaBroker, topic: str, keys: list[bytes], name: str, partitions: int
) -> list[set[bytes | None]]:
    """Keys by partition, as our partitioner of that name assigns them."""
    partitioner = Partitioner(targets(noida.bootstrap_servers), random.Random(), STRATEGIES[name])
    parts: list[set[bytes | None]] = [set() for _ in range(partitions)]
    for tp, split in partitioner.split(Rows(records(keys), topic, keys=binary(keys))):
        parts[tp.partition] = set(split.values.to_pylist())
    return parts


Pairs = list[tuple[str, bytes | None]]


def headers(rows: list[Pairs | None]) -> pa.Array:
    return pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows],
        HEADERS,
    )


def test_ordinary_rows_pass() -> None:
    check_records(
        Records(binary([None, b"a"]), binary([b"k", None]), headers([None, []]), int64([None, 0])), 1000
    )
    check_records(records([]), 1)


def test_the_first_row_that_is_too_large_is_named_with_both_sizes() -> None:
    with pytest.raises(RowError) as raised:
        check_records(records([b"a", None, b"x" * 1000, b"x" * 2000]), 1000)
    assert str(raised.value).startswith(
        "row 2: its record of 1087 bytes is larger than kafka.max.request.size=1000; shorten it, or raise"
    )


def test_keys_and_headers_count() -> None:
    values = binary([b"v", b"v"])
    keyed = Records(values, binary([None, b"k" * 1000]))
    with_headers = Records(values, headers=headers([[("a", b"1")], [("a", b"2" * 500), ("b", b"3" * 500)]]))
    for rows in (keyed, with_headers):
        with pytest.raises(RowError, match=r"^row 1: its record of 1\d\d\d bytes"):
            check_records(rows, 1000)
        check_records(rows, 1200)


def test_the_longest_key_and_the_longest_value_may_be_of_different_rows() -> None:
    apart = Records(binary([b"v" * 600, b"v"]), binary([b"k", b"k" * 600]))
    check_records(apart, 1000)
    with pytest.raises(RowError, match=r"^row 1: its record of 1287 bytes"):
        check_records(Records(binary([None, b"v" * 600]), binary([None, b"k" * 600])), 1000)


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=60),
            st.none() | st.binary(max_size=60),
            st.none()
            | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=20)), max_size=3),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(90, 300),
)
def test_what_passes_can_be_sent(
    rows: list[tuple[bytes | None, bytes | None, Pairs | None]], limit: int
) -> None:
    own = Records(
        binary([value for value, _, _ in rows]),
        binary([key for _, key, _ in rows]),
        headers([pairs for _, _, pairs in rows]),
    )
    try:
        check_records(own, limit)
    except RowError:
        return
    batches = encode_batches(own, batch_bytes_max=limit, request_bytes_max=limit, now_ms=0)
    assert sum(batch.count for batch in batches) == len(rows)


def test_a_timestamp_before_1970_names_its_row() -> None:
    with pytest.raises(RowError, match=r"^row 2: its timestamp is before 1970, which Kafka cannot hold"):
        check_records(Records(binary([b"", b"", b""]), timestamps_ms=int64([None, 0, -1])), 1000)


@pytest.mark.parametrize("bad", [None, {"key": None, "value": b"v"}])
def test_a_header_without_a_key_names_its_row(bad: object) -> None:
    pairs = pa.array([None, [{"key": "a", "value": None}], [{"key": "a", "value": b""}, bad]], HEADERS)
    with pytest.raises(RowError, match=r"^row 2: it has a header without a key"):
        check_records(Records(binary([b"", b"", b""]), headers=pairs), 1000)
    check_records(Records(binary([b"", b""]), headers=pairs.slice(0, 2)), 1000)


def test_a_null_over_headers_is_no_headers() -> None:
    plain = headers([[("k", b"v")], [("k", b"x" * 5000)], [("a", None), ("b", b"2")]])
    over = pa.ListArray.from_buffers(
        plain.type, 3, [pa.py_buffer(b"\x05"), plain.buffers()[1]], children=[plain.values]
    )
    assert over.to_pylist()[1] is None
    check_records(Records(binary([b"v"] * 3), headers=over), 1000)
    with pytest.raises(RowError, match=r"^row 2: its record of 111 bytes"):
        check_records(Records(binary([b"v"] * 3), headers=over), 110)


def test_a_headers_key_that_is_no_text_is_refused() -> None:
    plain = headers([None, [("a", b"1"), ("b", b"\xff")], [("c", b"2")]])
    keys = binary([b"a", b"b", b"k\xffy"]).view(pa.string())
    pairs = pa.StructArray.from_arrays([keys, plain.values.field(1)], fields=list(HEADERS.value_type))
    broken = pa.ListArray.from_arrays(plain.offsets, pairs)
    check_records(Records(binary([b"v"] * 3), headers=plain), 1000)
    with pytest.raises(RowError, match=r"^row 2: the key of a header is not UTF-8"):
        check_records(Records(binary([b"v"] * 3), headers=broken), 1000)
