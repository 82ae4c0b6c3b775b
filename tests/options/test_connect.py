"""Options of connections to modern brokers, and the properties ``kafka.*``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Broker, Generation
from spark_kafkawire.options import OPTIONS, NetOptions, ReadOptions, WriteOptions, kafka_properties
from tests.support.cases import for_each

MODERN: Final = {"kafka.bootstrap.servers": "a:9092"}


def read(**changes: str) -> ReadOptions:
    return ReadOptions.parse({**MODERN, "subscribe": "t", **changes})


def net(**changes: str) -> NetOptions:
    return read(**changes).net


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Warnings of this test; each is given once in a process."""
    kafka_properties._warn.cache_clear()
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    yield caplog
    kafka_properties._warn.cache_clear()


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:9092", [("a", 9092)]),
        (" b:2 ,a:1", [("b", 2), ("a", 1)]),
        ("a:1,,a:1,a:2,", [("a", 1), ("a", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("SSL://a.b-c:65535", [("a.b-c", 65535)]),
    ],
)
def test_bootstrap_servers_keep_their_order_and_have_ids_below_zero(
    text: str, addresses: list[tuple[str, int]]
) -> None:
    discovery = read(**{"kafka.bootstrap.servers": text}).discovery
    assert discovery.bootstrap_servers == tuple(
        Broker(-number, host, port) for number, (host, port) in enumerate(addresses, 1)
    )


@for_each("text", ["", " , ", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a b:1", "a:1;b:2"])
def test_bad_bootstrap_servers_are_told(text: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{"kafka.bootstrap.servers": text})
    form = "of the form host:port,host:port"
    assert str(error.value) == f"option kafka.bootstrap.servers: {text!r} is not {form}"


def test_the_discovery_option_chooses_the_generation() -> None:
    assert net().connection.generation is Generation.MODERN
    for old in ({"zookeeper.connect": "h:1"}, {"broker.list": "0:h:1"}):
        assert ReadOptions.parse({**old, "subscribe": "t"}).net.connection.generation is Generation.V07


@pytest.mark.parametrize(
    ("option", "given", "place"),
    [
        ("kafka.bootstrap.servers", "b:2, SSL://a:1", "kafka.bootstrap.servers=a:1,b:2"),
        ("zookeeper.connect", "z:2181, y:2181/kafka", "zookeeper.connect=z:2181,y:2181/kafka"),
        ("broker.list", "1:a:1,0:b:2", "broker.list=0:b:2,1:a:1"),
    ],
)
def test_a_place_names_a_cluster_alike_in_whatever_order_its_brokers_are_given(
    option: str, given: str, place: str
) -> None:
    assert ReadOptions.parse({option: given, "subscribe": "t"}).discovery.place == place


def test_two_discovery_options_contradict_each_other() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers and zookeeper\.connect are set$"):
        read(**{"zookeeper.connect": "h:1"})


MODERN_VALUES: Final[list[tuple[str, str, str, Any]]] = [
    ("kafka.bootstrap.servers", "b:1", "discovery.bootstrap_servers", (Broker(-1, "b", 1),)),
    ("kafka.client.id", "me", "net.connection.client_id", "me"),
    ("kafka.request.timeout.ms", "40000", "net.request_timeout_s", 40.0),
    ("kafka.retries", "5", "net.retry.retries", 5),
    ("kafka.retries", "2147483647", "net.retry.retries", 1000),
    ("kafka.retry.backoff.ms", "250", "net.retry.backoff_s", 0.25),
]


@pytest.mark.parametrize(("name", "value", "path", "expected"), MODERN_VALUES)
def test_a_property_of_kafkas_clients_is_parsed(name: str, value: str, path: str, expected: object) -> None:
    found: Any = read(**{name: value})
    for attribute in path.split("."):
        found = getattr(found, attribute)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "release"), [("0.8", "0.8"), ("0.8.2.2", "0.8"), (" 0.9.0 ", "0.9"), ("0.9.0.1", "0.9")]
)
def test_brokers_are_of_the_release_that_the_user_says_and_nobody_asks(text: str, release: str) -> None:
    said = {"kafka.api.version.request": "false", "kafka.broker.version.fallback": text}
    assert net(**said).connection.assumed_release == release
    assert WriteOptions.parse({**MODERN, **said}).net.connection.assumed_release == release
    assert net().connection.assumed_release is None


@for_each("text", ["0.10.0", "0.7.2", "1.0", "0.9.x", "0.9.", "0.90", "0.9.0.1.1", "\u0660.9", ""])
def test_a_release_that_brokers_tell_themselves_or_that_is_none_is_refused_in_one_line(text: str) -> None:
    for asks in ("true", "false"):
        with pytest.raises(
            OptionError, match=r"^option kafka\.broker\.version\.fallback: .* is not 0\.8 or 0\.9"
        ):
            read(**{"kafka.api.version.request": asks, "kafka.broker.version.fallback": text})


def test_brokers_that_are_not_asked_must_have_a_release() -> None:
    with pytest.raises(OptionError, match=r"^option kafka\.api\.version\.request: false needs kafka\.broker"):
        read(**{"kafka.api.version.request": "false"})


def test_a_release_alone_means_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert net(**{"kafka.broker.version.fallback": "0.9.0"}).connection.assumed_release is None
    assert caplog.messages == [
        "option kafka.broker.version.fallback has no effect unless kafka.api.version.request=false, because "
        "brokers report their versions themselves"
    ]


def test_old_brokers_know_none_of_the_logins_that_are_supported() -> None:
    with pytest.raises(
        OptionError, match=r"^option kafka\.broker\.version\.fallback: .* no login but Kerberos"
    ):
        read(
            **{
                "kafka.api.version.request": "false",
                "kafka.broker.version.fallback": "0.9.0",
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": "PlainLoginModule required username='a' password='b';",
            }
        )


def test_the_servers_name_the_cluster_of_a_connection() -> None:
    assert net().connection.bootstrap_servers == (Broker(-1, "a", 9092),)


def test_the_client_has_a_name_of_its_own() -> None:
    assert net().connection.client_id == "spark-kafkawire"


@pytest.mark.parametrize(
    ("name", "kafkas"),
    [
        ("requestTimeout", "kafka.request.timeout.ms"),
        ("retries", "kafka.retries"),
        ("retryBackoff", "kafka.retry.backoff.ms"),
    ],
)
def test_two_names_of_one_option_contradict_each_other(name: str, kafkas: str) -> None:
    with pytest.raises(OptionError, match=f"^options {name} and {kafkas} name the same setting"):
        read(**{name: "1", kafkas: "1"})


@pytest.mark.parametrize("name", ["kafka.request.timeout.ms", "kafka.retries", "kafka.retry.backoff.ms"])
def test_a_bad_value_of_a_property_is_told(name: str) -> None:
    with pytest.raises(OptionError, match=f"^option {name}: 'soon' is not "):
        read(**{name: "soon"})


@for_each("name", [option.name for option in OPTIONS if option.generation is Generation.MODERN])
def test_an_option_of_modern_kafka_means_nothing_to_07(name: str) -> None:
    side, own = (ReadOptions, {"subscribe": "t"}) if _is_read(name) else (WriteOptions, {})
    with pytest.raises(OptionError, match=rf"set exactly one|^option {name} does not apply to Kafka 0\.7"):
        side.parse({"zookeeper.connect": "h:1", **own, name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        option.name
        for option in OPTIONS
        if option.generation is Generation.V07 and option.name not in ("zookeeper.connect", "broker.list")
    ],
)
def test_an_option_of_07_means_nothing_to_modern_kafka(name: str) -> None:
    side, own = (ReadOptions, {"subscribe": "t"}) if _is_read(name) else (WriteOptions, {})
    with pytest.raises(OptionError, match=rf"^option {name} does not apply to Kafka 0\.8\+, which kafka"):
        side.parse({**MODERN, **own, name: "1"})


def _is_read(name: str) -> bool:
    return next(option.read for option in OPTIONS if option.name == name)


def test_a_property_that_is_a_typing_error_is_told_with_its_name(
    warnings: pytest.LogCaptureFixture,
) -> None:
    read(**{"kafka.security.protcol": "SSL"})
    assert [line.partition("; ")[2] for line in warnings.messages] == [
        "did you mean kafka.security.protocol?"
    ]
    with pytest.raises(OptionError, match=r"none is set; did you mean kafka\.bootstrap\.servers\?$"):
        ReadOptions.parse({"kafka.bootstrap.server": "127.0.0.1:1", "subscribe": "t"})


def test_an_unknown_property_is_passed_over_with_one_warning_that_hides_its_value(
    warnings: pytest.LogCaptureFixture,
) -> None:
    for _ in range(3):
        assert read(**{"kafka.Metric.Reporters": "s3cret", "kafka.linger": "1"}) == read()
    assert warnings.messages == [
        "option kafka.Metric.Reporters has no effect in kafkawire and is ignored",
        "option kafka.linger has no effect in kafkawire and is ignored",
    ]


def test_an_unknown_property_is_an_error_where_there_are_no_modern_clients() -> None:
    with pytest.raises(OptionError, match=r"^option kafka\.linger does not apply to Kafka 0\.7, which zoo"):
        ReadOptions.parse({"zookeeper.connect": "h:1", "subscribe": "t", "kafka.linger": "1"})


_REFUSED_BY_READS: Final = (
    "kafka.auto.offset.reset",
    "KAFKA.Auto.Offset.Reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "kafka.transactional.id",
)
_REFUSED_BY_WRITES: Final = (
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.interceptor.classes",
)


@for_each(
    ("side", "name"),
    [
        *((ReadOptions, name) for name in _REFUSED_BY_READS),
        *((WriteOptions, name) for name in _REFUSED_BY_WRITES),
    ],
)
def test_what_spark_refuses_is_refused_with_advice(side: type[ReadOptions | WriteOptions], name: str) -> None:
    with pytest.raises(OptionError) as error:
        side.parse({**MODERN, name: "s3cret"})
    assert str(error.value).startswith(f"option {name} is not supported: ")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("side", "name"),
    [
        (ReadOptions, "kafka.key.serializer"),
        (ReadOptions, "kafka.value.serializer"),
        (WriteOptions, "kafka.auto.offset.reset"),
        (WriteOptions, "kafka.enable.auto.commit"),
        (WriteOptions, "kafka.key.deserializer"),
    ],
)
def test_what_spark_refuses_on_the_other_side_only_is_passed_over(
    side: type[ReadOptions | WriteOptions], name: str, warnings: pytest.LogCaptureFixture
) -> None:
    selection = {"subscribe": "t"} if side is ReadOptions else {}
    side.parse({**MODERN, **selection, name: "s3cret"})
    assert warnings.messages == [f"option {name} has no effect in kafkawire and is ignored"]


def test_the_advice_against_a_reset_names_the_option_to_set() -> None:
    with pytest.raises(OptionError, match="startingOffsets says where a query starts") as error:
        read(**{"kafka.auto.offset.reset": "earliest"})
    assert "latest" not in str(error.value)  # a batch cannot start there
