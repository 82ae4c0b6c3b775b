"""Options: their defaults, what good values become, and which values are refused."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from spark_kafkawire.errors import MESSAGE_SIZE_MAX, OptionError
from spark_kafkawire.model import Generation
from spark_kafkawire.net.retry import Bootstrap
from spark_kafkawire.options import (
    EARLIEST,
    LATEST,
    OPTIONS,
    STREAM_OPTIONS,
    Discovery,
    FetchOptions,
    OffsetLimits,
    Option,
    ReadOptions,
    WriteOptions,
    drop_other_side,
)
from spark_kafkawire.options.option import (
    NotAnObject,
    RepeatedKey,
    is_kafka_property,
    json_object,
    warn_once,
)
from spark_kafkawire.options.references import RepeatedProperty, parse_properties
from tests.options.values import (
    BAD_READ_VALUES,
    BAD_WRITE_VALUES,
    READ_VALUES,
    SECRET,
    WRITE_VALUES,
    ZOOKEEPER,
    assert_refusal,
    attribute,
    changed,
    read,
    timestamp,
    write,
)
from tests.support.cases import for_each
from tests.support.settings import net_07

#: The value of wireFormat that is None.
WITHOUT_PROPOSAL: Final = "0.7"
FIRST_CONTACT: Final = Bootstrap("zookeeper.connect=h:2181", 20.0)


def test_a_read_has_the_documented_defaults() -> None:
    options = read()
    assert options.discovery == Discovery(zookeeper_connect="h:2181")
    assert options.net.known == net_07(30.0, 3, 0.1, 60.0)
    assert options.net.retry.bootstrap == FIRST_CONTACT
    assert options.selection.subscribe == ("t",)
    assert options.starting == OffsetLimits("startingOffsets", for_all=EARLIEST)
    assert options.ending == OffsetLimits("endingOffsets", for_all=LATEST)
    assert not options.latest_if_no_match
    assert options.min_partitions is options.partition_size_max is None
    assert options.fetch == FetchOptions(
        fetch_bytes=4 << 20,
        fetches_in_flight=4,
        message_bytes_max=64 << 20,
        decompressed_bytes_max=256 << 20,
        fail_on_data_loss=True,
        retry_timeout_s=60.0,
    )


def test_a_write_has_the_documented_defaults() -> None:
    net = net_07(30.0, 3, 0.1, 60.0)
    assert write() == WriteOptions(
        discovery=Discovery(zookeeper_connect="h:2181"),
        net=replace(net, retry=replace(net.retry, bootstrap=FIRST_CONTACT)),
        topic=None,
        partitioner="murmur2",
        compression="none",
        compression_level=None,
        acks="1",
        batch_bytes=1_000_000,
        message_size_max=1_000_000,
    )


def test_a_group_has_options_and_an_instance_of_it_has_their_values() -> None:
    assert str(FetchOptions.fetch_bytes) == "fetchBytes"
    assert FetchOptions().fetch_bytes == FetchOptions.fetch_bytes.value == 4 << 20
    assert read(fetchBytes="1MiB").fetch == replace(read().fetch, fetch_bytes=1 << 20)
    assert pickle.loads(pickle.dumps(FetchOptions())) == FetchOptions()


@for_each("option", [*OPTIONS, *STREAM_OPTIONS], ids=lambda option: option.name)
def test_a_default_is_a_value_of_its_option(option: Option[Any]) -> None:
    assert (option.value is None) == (option.default in (None, WITHOUT_PROPOSAL))


@for_each(
    ("parse", "given", "path", "expected"),
    [(read, *row) for row in READ_VALUES] + [(write, *row) for row in WRITE_VALUES],
)
def test_a_value_is_parsed(
    parse: Callable[..., ReadOptions | WriteOptions],
    given: dict[str, str | None],
    path: str,
    expected: object,
) -> None:
    options = parse(**given)
    assert attribute(options, path) == expected
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_has_a_value_here() -> None:
    tried = {name for given, *_ in READ_VALUES + WRITE_VALUES for name in given}
    assert tried == {option.name for option in OPTIONS if option.generation is not Generation.MODERN}


@for_each(
    ("side", "name", "value"),
    [
        (side, name, value)
        for side, bad in (("read", BAD_READ_VALUES), ("write", BAD_WRITE_VALUES))
        for name, values in bad.items()
        for value in values
    ],
)
def test_a_bad_value_is_refused(side: str, name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**changed(name, value)) if side == "read" else write(**{"compression": "gzip", name: value})
    assert_refusal(error.value, name, value)


def test_options_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        read().fetch.fetch_bytes = 1  # type: ignore[misc]


# --- Names of options: their case, their side, and hints for unknown ones ---


@pytest.mark.parametrize("name", ["ZooKeeper.Connect", "ZOOKEEPER.CONNECT"])
def test_option_names_are_case_insensitive(name: str) -> None:
    assert ReadOptions.parse({name: "h:1", "SUBSCRIBE": "t"}).discovery.zookeeper_connect == "h:1"


@for_each("option", [*OPTIONS, *STREAM_OPTIONS], ids=lambda option: option.name)
def test_a_suggestion_has_the_spelling_of_the_tables(option: Option[Any]) -> None:
    """Spark hands names on in small letters."""
    kind = ReadOptions if option.sides.read else WriteOptions
    base = {"subscribe": "t"} if option.sides.read else {}
    if is_kafka_property(option.name):  # silently ignored, with a warning that may be of another test
        return
    if option in OPTIONS:
        with pytest.raises(OptionError) as error:
            kind.parse({**ZOOKEEPER, **base, f"{option.name.lower()}x": "1"})
        assert f"; did you mean {option.name}? See https://" in str(error.value)
        assert len(str(error.value)) < 250


def test_an_unknown_option_suggests_a_close_one_or_names_the_page() -> None:
    with pytest.raises(OptionError, match=r"^unknown option request\.timeout for a read; did you mean requ"):
        read(**{"request.timeout": "1"})
    with pytest.raises(
        OptionError, match=r"^unknown option xyzzy for a write; leave it out\. See https://\S*$"
    ):
        write(xyzzy="1")


@for_each(
    ("parse", "name", "reported"),
    [
        (write, "FAILONDATALOSS", "failOnDataLoss is for reading, has no effect in a write and is ignored"),
        (write, "maxoffsetspertrigger", "maxOffsetsPerTrigger is for reading, has no effect in a write and"),
        (read, "acks", "acks is for writing, has no effect in a read and is ignored"),
        (read, "checkpointlocation", "checkpointLocation is for writeStream, has no effect in"),
        (read, "inferschema", "inferschema is for files, has no effect in a read and is ignored"),
        (read, "header", "ignored; includeHeaders=true adds the headers of records"),
        (read, "group.id", "group.id has no effect in a read and is ignored: set kafka.group.id"),
        (read, "auto.offset.reset", "ignored: startingOffsets says where a query starts"),
        (read, "enable.auto.commit", "ignored: a read commits no offsets"),
        (read, "key.deserializer", "ignored: keys and values are bytes here"),
        (write, "topics", "ignored: a read selects its topics by subscribe, and a write has one, topic"),
        (read, "max.poll.records", "ignored: properties of Kafka's clients need kafka. before their names"),
        (read, "fetch.min.bytes", "ignored: properties of Kafka's clients need kafka. before their names"),
    ],
)
def test_what_sparks_connector_ignores_is_ignored_with_one_line(
    parse: Callable[..., object], name: str, reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        parse(**{name: "hunter2"})
        parse(**{name: "hunter2"})
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith("option ")
    assert reported in said
    assert "hunter2" not in said


def test_an_ignored_option_is_a_hint_where_another_one_is_missing() -> None:
    with pytest.raises(OptionError, match=r"none is set; did you mean kafka\.bootstrap\.servers\?"):
        ReadOptions.parse({"bootstrap.servers": "h:1", "subscribe": "t"})
    with pytest.raises(OptionError, match=r"and assign: none is set; topic is for writes"):
        ReadOptions.parse({**ZOOKEEPER, "topic": "t"})


def test_a_long_poll_timeout_is_capped(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "172800000"}
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert ReadOptions.parse(given).fetch.retry_timeout_s == 86_400
    assert (
        "option kafkaConsumer.pollTimeoutMs is longer than 24 h, which are used in its place" in caplog.text
    )


def test_options_that_name_one_side_are_of_that_side() -> None:
    for given in ({"subscribe": "t", "acks": "1"}, {"topic": "t", "failOnDataLoss": "false"}):
        assert drop_other_side(given, read=True) == drop_other_side(given, read=False) == given


@pytest.mark.parametrize(
    ("selection", "value"), [("subscribe", "t"), ("subscribePattern", "t.*"), ("assign", '{"t":["0-0"]}')]
)
def test_options_of_both_sides_are_distinguished_for_each(selection: str, value: str) -> None:
    given = {**ZOOKEEPER, selection: value, "Topic": "copy", "acks": "verify", "failOnDataLoss": "false"}
    given |= {"maxBytesPerTrigger": "1m", "ackz": "1"}
    reading, writing = (drop_other_side(given, read=read) for read in (True, False))
    assert given.items() - reading.items() == {("Topic", "copy"), ("acks", "verify")}
    others = {(selection, value), ("failOnDataLoss", "false"), ("maxBytesPerTrigger", "1m")}
    assert given.items() - writing.items() == others
    for parse, side in ((ReadOptions.parse, reading), (WriteOptions.parse, writing)):
        with pytest.raises(OptionError, match="unknown option ackz for a"):
            parse(side)


# --- Options that go together, and options that do not ---

OFFSETS: Final = '{"t":{"0-1":123}}'


def test_what_is_acknowledged_is_not_read_back() -> None:
    with pytest.raises(OptionError) as error:
        write(wireFormat="proposal", acks="verify")
    assert str(error.value) == (
        "option acks cannot be combined with wireFormat=proposal: verify reads back what brokers do not "
        "acknowledge, and there they do, by acks=1; leave out one of the two"
    )
    with pytest.raises(
        OptionError, match=r"option wireFormat does not apply to Kafka 0\.8\+, which kafka\.boot"
    ):
        WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "wireFormat": "proposal"})


def test_what_is_not_for_this_side_or_codec_is_refused() -> None:
    options = read(startingTimestamp="5", endingTimestamp="5")
    assert options.starting.for_all == options.ending.for_all == timestamp(5)
    with pytest.raises(
        OptionError, match=r"call save\(\) and start\(\) without a path, and set the option topic$"
    ):
        write(path="/tmp")
    with pytest.raises(OptionError, match="compressionLevel is not for compression=snappy; leave it out"):
        write(compression="snappy", compressionLevel="1")
    with pytest.raises(
        OptionError, match=r"^option checkpointLocation is for writeStream, not for a write; leave it out$"
    ):
        write(checkpointLocation="/data/checkpoint")


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (("startingOffsets", "startingOffsetsByTimestamp"), "startingOffsetsByTimestamp"),
        (("startingOffsetsByTimestamp", "startingTimestamp"), "startingTimestamp"),
        (("startingOffsets", "startingTimestamp"), "startingTimestamp"),
    ],
)
def test_of_several_starts_the_most_specific_option_wins(given: tuple[str, ...], option: str) -> None:
    values = {"startingTimestamp": "5"}
    assert read(**{name: values.get(name, OFFSETS) for name in given}).starting.option == option


#: What an error about a timestamp says.
MOMENTS = (
    "milliseconds since 1970, like 1767225600000, a time with its zone, like 2026-01-31T00:00:00Z, a time "
    "before now, like -10 minutes, or -1 for latest, -2 for earliest"
)


# --- Errors of bad values and of options that contradict each other: what they say, word by word ---


@for_each(
    ("changes", "message"),
    [
        ({"startingOffsets": "Latest"},
         "option startingOffsets: 'Latest': starting offset can't be latest for batch queries on Kafka; "
         'give earliest or {"t":{"0-1":123}} (broker-partition)'),
        ({"endingOffsets": '{"t":{"0-1":-2}}'},
         "option endingOffsets: ending offset for t 0-1 can't be earliest (-2) for batch queries on "
         "Kafka; give an offset or latest"),
        ({"startingOffsetsByTimestamp": '{"t":{"0-1":-3}}'},
         f"option startingOffsetsByTimestamp: the timestamp of t 0-1 is -3; set {MOMENTS}"),
        ({"endingOffsetsByTimestamp": '{"t":{"0-1":"-10"}}'},
         "option endingOffsetsByTimestamp: '{\"t\":{\"0-1\":\"-10\"}}' is not of the form "
         '{"t":{"0-1":1700000000000}} (broker-partition)'),
        ({"endingOffsetsByTimestamp": '{"t":{"0-1":"soon"}}'},
         f"option endingOffsetsByTimestamp: the timestamp of t 0-1 is 'soon'; set {MOMENTS}"),
        # Spark's session zone is not known here.
        ({"startingTimestamp": "2026-01-01T00:00:00"},
         f"option startingTimestamp: '2026-01-01T00:00:00' is not {MOMENTS}"),
        ({"startingTimestamp": "-5m", "endingTimestamp": "-10 minutes"},
         "option startingTimestamp: -300000 is after endingTimestamp=-600000; exchange them"),
        ({"subscribe": None, "subscribePattern": "("},
         "option subscribePattern: '(' is not a supported Java regular expression: a ( is "
         "not closed; close it with ), or write \\( for the character",),
        ({"startingOffsets": str({"t": {"0-1": 5}})},
         "option startingOffsets: '{'t': {'0-1': 5}}' is not JSON: JSON needs double quotes, as "
         'json.dumps gives them to a Python dict; give earliest or {"t":{"0-1":123}} (broker-partition)'),
        ({"startingOffsetsByTimestamp": "{ 't': {0: 5}}"},
         "option startingOffsetsByTimestamp: '{ 't': {0: 5}}' is not JSON: JSON needs double "
         'quotes, as json.dumps gives them to a Python dict; give {"t":{"0-1":1700000000000}} '
         "(broker-partition)"),
        ({"subscribe": None, "assign": str({"t": ["0-1"]})},
         "option assign: '{'t': ['0-1']}' is not JSON: JSON needs double quotes, as json.dumps gives them "
         'to a Python dict; give {"t":["0-0","1-2"]} (broker-partition)'),
        ({"retries": "x" * 200}, f"option retries: '{'x' * 200}' is not a whole number from 0 to 1000"),
        ({"retries": "x" * 500_000},
         f"option retries: '{'x' * 200}… (500000 characters)' is not a whole number from 0 to 1000"),
        ({"requestTimeout": "24h1"},
         "option requestTimeout: '24h1' is not a time above zero and up to 24h, like 500ms or 30s"),
        ({"zookeeper.connect": None},
         "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and broker.list:"
         " none is set"),
        ({"broker.list": "0:h:1"},
         "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and broker.list:"
         " zookeeper.connect and broker.list are set"),
        ({"subscribe": None},
         "set exactly one of the options subscribe, subscribePattern and assign: none is set"),
        ({"assign": '{"t":["0-0"]}'}, "set exactly one of the options subscribe, subscribePattern and assign:"
         " subscribe and assign are set"),
        ({"zookeeper.connect": None, "broker.list": "0:h:1", "zookeeper.auth": f"digest:u:{SECRET}"},
         "option zookeeper.auth needs zookeeper.connect: with broker.list nothing logs in to ZooKeeper; "
         "leave one of the two out"),
        ({"startingTimestamp": "6", "endingTimestamp": "5"},
         "option startingTimestamp: 6 is after endingTimestamp=5; exchange them"),
        ({"wireFormat": "proposal", "fetchesInFlight": "4"},
         "option fetchesInFlight cannot be combined with wireFormat=proposal: its fetches have no size, "
         "the " "broker gives what one answer holds; leave out one of the two"),
    ],
)  # fmt: skip
def test_an_error_says_which_values_are_allowed_or_go_together(
    changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        read(**changes)
    assert str(error.value) == message


@for_each(
    ("name", "word", "meant"),
    [
        ("startingOffsets", "beginning", "earliest"),
        ("startingOffsets", " Smallest ", "earliest"),
        ("startingOffsets", "earlist", "earliest"),
        ("endingOffsets", "end", "latest"),
        ("endingOffsets", "lastest", "latest"),
    ],
)
def test_a_word_of_other_clients_is_refused_with_ours(name: str, word: str, meant: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{name: word})
    assert str(error.value) == (
        f"option {name}: '{word.strip()}' is not of the form {meant} or "
        '{"t":{"0-1":123}} (broker-partition); '
        f"did you mean {meant}?"
    )


@pytest.mark.parametrize(
    ("name", "word", "meant"), [("startingOffsets", "end", "latest"), ("endingOffsets", "start", "earliest")]
)
def test_a_word_for_the_wrong_end_of_a_batch_is_refused(name: str, word: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"; {meant} is not for {name} of batch queries$"):
        read(**{name: word})


# --- An option that can be read in two ways is refused: neither can be what its user is sure of ---

MODERN = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
V07 = {"zookeeper.connect": "h:2181", "subscribe": "t"}


def refusal(base: dict[str, str], **changes: str | None) -> str:
    given = {**base, **changes}
    with pytest.raises(OptionError) as error:
        ReadOptions.parse({name: value for name, value in given.items() if value is not None})
    message = str(error.value)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
    return message


@pytest.mark.parametrize(
    ("base", "name", "text", "key"),
    [
        (MODERN, "assign", '{"t":[0],"t":[1]}', "t"),
        (MODERN, "startingOffsets", '{"t":{"0":1,"0":2}}', "0"),
        (MODERN, "startingOffsets", '{"t":{"0":1},"u":{"0":1},"t":{"1":1}}', "t"),
        (MODERN, "endingOffsets", '{"t":{"0":1,"\\u0030":2}}', "0"),
        (MODERN, "startingOffsetsByTimestamp", '{"t":{"0":1,"0":1}}', "0"),
        (V07, "assign", '{"t":["0-0"],"t":["0-1"]}', "t"),
        (V07, "startingOffsets", '{"t":{"0-1":1,"0-1":2}}', "0-1"),
    ],
)
def test_a_key_that_json_has_twice_is_named(base: dict[str, str], name: str, text: str, key: str) -> None:
    changes = {"subscribe": None} if name == "assign" else {}
    assert refusal(base, **changes, **{name: text}) == f"option {name}: '{key}' occurs twice in '{text}'"


@for_each(
    "text",
    [
        '{"t":{"00":1}}', '{"t":{"0":1,"00":2}}', '{"t":{"\u0663":1}}', '{"t":{"0":1.0}}', '{"t":{"0":1e3}}',
        '{"t":{"0":true}}', '{"t":{"0":"1"}}', '{"t":{"0":NaN}}', '{"t":{"0":Infinity}}',
        '{"t":{"0":9223372036854775808}}', '{"t":{"0":' + "9" * 5000 + "}}", '{"t":{"0":1}} x',
        '{"t":{"0":1}}{"t":{"0":2}}', '\u00a0{"t":{"0":1}}', '\ufeff{"t":{"0":1}}', '{"t":{" 0":1}}',
        '{"t":{"+0":1}}', '{"t":{"-0":1}}', '{"t":{"0x0":1}}', '{"t":{"0_0":1}}', '{"":{"0":1}}',
        '{"\\ud800":{"0":1}}', "[" * 100_000, '{"t":' * 100_000, '{"t":{"4294967296":1}}',
    ],
)  # fmt: skip
@for_each("name", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_an_offset_has_one_spelling(name: str, text: str) -> None:
    assert "is not of the form" in refusal(MODERN, **{name: text})


@for_each(
    ("base", "changes"),
    [
        *(
            (V07, changes)
            for key in ("00-0", "0-00", "0-\u0663", "0- 1", "0--1", "0", "0-1-2", "01-1", "1-01")
            for changes in (
                {"startingOffsets": f'{{"t":{{"{key}":1}}}}'},
                {"subscribe": None, "assign": f'{{"t":["{key}"]}}'},
            )
        ),
        *(
            (MODERN, {"subscribe": None, "assign": f'{{"t":[{number}]}}'})
            for number in ("0.0", "1e0", "true", '"0"', "null", "[0]", "9" * 30, "-1")
        ),
        (V07, {"zookeeper.connect": "h:\uff12\uff11\uff18\uff11"}),
        (V07, {"zookeeper.connect": "h\x1b[31m:2181"}),
        (V07, {"zookeeper.connect": None, "broker.list": "\u0660:h:9092"}),
        (V07, {"zookeeper.connect": None, "broker.list": "0:h:\u0669\u0660\u0669\u0662"}),
        (V07, {"zookeeper.connect": None, "broker.list": "0:h\x7f:9092"}),
    ],
)
def test_partitions_and_addresses_of_07_have_one_spelling(
    base: dict[str, str], changes: dict[str, str | None]
) -> None:
    assert "is not of the form" in refusal(base, **changes)


@for_each(
    ("name", "text"),
    [
        ("retries", "\u0663"),
        ("retries", "1_0"),
        ("retries", "\u00a03"),
        ("retries", "3.0"),
        ("retries", "1e1"),
        ("requestTimeout", "\u0663\u0660s"),
        ("requestTimeout", "30\u00a0s"),
        ("requestTimeout", "30 \u017f"),
        ("fetchBytes", "4\u212aiB"),
        ("fetchBytes", "4 \u00a0MiB"),
        ("fetchBytes", "\uff14MiB"),
        ("startingTimestamp", "\u0661\u0667" + "\u0660" * 11),
        ("failOnDataLoss", "true\u2003"),
        ("kafka.security.protocol", "\u017f\u017fl"),
        ("kafka.isolation.level", "read_committed\u200b"),
        ("kafka.bootstrap.servers", "h:\uff19\uff10\uff19\uff12"),
        ("kafka.bootstrap.servers", "\u017f\u017fl://h:9092"),
        ("kafka.bootstrap.servers", "h\x1b[31m:9092"),
        ("kafka.bootstrap.servers", "h\0:9092"),
    ],
)
def test_digits_and_blanks_are_ascii(name: str, text: str) -> None:
    assert refusal(MODERN, **{name: text}).startswith(f"option {name}: ")


def test_names_that_differ_by_case_alone_are_one_option() -> None:
    message = refusal(MODERN, SUBSCRIBE="u")
    assert message == "options subscribe and SUBSCRIBE are the same one; set it once"
    with pytest.raises(OptionError, match=r"^options topic and Topic are the same one; set it once$"):
        WriteOptions.parse({**MODERN, "topic": "t", "Topic": "u"})


@pytest.mark.parametrize("name", ["subscribe", "kafka.group.id", "kafka.sasl.jaas.config", "kafka.x"])
def test_half_of_a_surrogate_pair_is_no_text(name: str) -> None:
    message = refusal(MODERN, **{name: "secret\ud800"})
    assert message.startswith(f"option {name}: its value, which is not shown, holds half of a surrogate pair")
    assert "secret" not in message


NAMES = st.sampled_from([option.name for option in OPTIONS])
HOSTILE = st.text(st.characters() | st.sampled_from("\n\r\0\x1b\x85\u2028\ud800{}[]\":,'0-()&\\"))
HOSTILE |= st.from_regex(r'\A[\[{]["{}\[\]:,0-9a-z-]{0,30}\Z')


# Python warns of patterns that a later version may read otherwise, like '[[a]'.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@drawn(
    st.dictionaries(NAMES | HOSTILE, HOSTILE | HOSTILE.map(lambda text: text * 1000), max_size=4),
    st.booleans(),
)
def test_whatever_options_hold_they_are_read_or_refused_in_one_line(raw: dict[str, Any], reads: bool) -> None:
    message = ""
    try:
        (ReadOptions if reads else WriteOptions).parse(raw)
    except OptionError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX


# --- Credentials of ZooKeeper: refused without being shown, and in no repr ---


@pytest.mark.parametrize(
    "value", [SECRET, f"digest:{SECRET}", f"sasl:u:{SECRET}", f"u:{SECRET}", f"DIGEST:u:{SECRET}", ""]
)
def test_a_bad_credential_is_refused_and_never_shown(value: str) -> None:
    with pytest.raises(OptionError, match=r"option zookeeper\.auth") as error:
        read(**{"zookeeper.auth": value})
    assert SECRET not in str(error.value)
    assert SECRET not in repr(error.value)


def test_a_credential_is_in_no_repr() -> None:
    for parse in (read, write):
        options = parse(**{"zookeeper.auth": f"digest:u:{SECRET}"})
        assert SECRET not in repr(options) + str(options)


# --- Files of options: what Java's Properties reads, we read ---


@for_each(
    ("text", "properties"),
    [
        ("a=1\nb = 2\nc:3\nd : 4\ne 5\nf\t6", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}),
        ("# a comment=1\n  ! another=2\n\n   \na=1", {"a": "1"}),
        ("a=h:9092,h:9093", {"a": "h:9092,h:9093"}),
        (
            'a=Module required user="u" password="p=q#r!";',
            {"a": 'Module required user="u" password="p=q#r!";'},
        ),
        ("a=1\\\n   2\\\n# 3", {"a": "12# 3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b\\ c\\:d=e\\\\f\\tg\\u00e9", {"a=b c:d": "e\\f\tgé"}),
        ("a=\u00a01\x85b=2\u2028", {"a": "\u00a01\x85b=2\u2028"}),
        ("a=\nb", {"a": "", "b": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=\\", {"a": ""}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("", {}),
    ],
)
def test_properties_are_those_that_java_reads(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=1\na=2", "a=1\nb=2\nA=1", "a\\u0062=1\nab=1", "a=1\ra\n"])
def test_report_a_key_that_is_there_twice(text: str) -> None:
    with pytest.raises(RepeatedProperty):
        parse_properties(text)


# --- JSON in which nothing is silently ignored ---


def test_an_object_is_read_as_it_is() -> None:
    assert json_object(' {"a": {"b": [1, null, 2.5, "x"]}, "": {}}\n') == {
        "a": {"b": [1, None, 2.5, "x"]},
        "": {},
    }


@pytest.mark.parametrize(
    "text", ['{"k": 1, "k": 1}', '{"a": [{"k": 1, "b": 2, "k": 3}]}', '{"k": 1, "\\u006b": 2}']
)
def test_a_key_that_is_there_twice_is_named(text: str) -> None:
    with pytest.raises(RepeatedKey, match=r"^the key k appears twice$") as refused:
        json_object(text)
    assert refused.value.key == "k"


@for_each(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("[]", "it is no JSON object"),
        ("1", "it is no JSON object"),
        ('{"a": 1', "it is not JSON, or it is cut"),
        ('{"a": 1} {}', "it is not JSON, or it is cut"),
        ("[" * 100_000, "it is not JSON, or it is cut"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": [-Infinity]}', "-Infinity is no number"),
    ],
)
def test_report_a_value_that_is_not_an_object(text: str, why: str) -> None:
    with pytest.raises(NotAnObject, match=f"^{why}$"):
        json_object(text)
