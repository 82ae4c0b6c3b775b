"""Properties have the names, defaults and limits of 0.7.2."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_kafkawire.broker import BrokerConfig
from spark_kafkawire.errors import OptionError
from tests.support.cases import for_each

NEEDED = {"brokerid": "7", "log.dir": "/logs"}


def test_defaults_are_those_of_0_7_2_on_loopback() -> None:
    config = BrokerConfig.from_properties(NEEDED)
    assert (config.broker_id, config.log_dir) == (7, Path("/logs"))
    assert (config.hostname, config.port) == ("127.0.0.1", 6667)
    assert config.max_socket_request_bytes == 104_857_600
    assert config.max_message_size == 1_000_000
    assert config.max_topic_name_length == 255
    assert config.log_file_size == 1_073_741_824
    assert config.log_flush_interval == 500
    assert config.flush_interval_ms("t") == 3000
    assert config.partition_count("t") == 1
    assert config.retention_ms("t") == 7 * 24 * 3_600_000
    assert config.segment_age_max_ms("t") == 7 * 24 * 3_600_000
    assert config.log_retention_size == -1
    assert config.log_cleanup_interval_mins == 10
    assert config.zk_session_timeout_ms == 6000
    assert config.zookeeper is None


def test_topics_have_settings_of_their_own() -> None:
    config = BrokerConfig.from_properties(
        {
            **NEEDED,
            "num.partitions": "3",
            "topic.partition.count.map": "a:5, b-c:1",
            "topic.log.file.size": "a:100",
            "topic.log.roll.hours": "a:1",
            "topic.log.retention.hours": "a:2",
            "log.default.flush.interval.ms": "70",
            "topic.flush.intervals.ms": "a:30",
        }
    )
    assert [config.partition_count(topic) for topic in ("a", "b-c", "other")] == [5, 1, 3]
    assert config.segment_size_max("a") == 100
    assert config.segment_age_max_ms("a") == 3_600_000
    assert config.retention_ms("a") == 7_200_000
    assert [config.flush_interval_ms(topic) for topic in ("a", "other")] == [30, 70]


def test_zookeeper_can_be_named_and_switched_off() -> None:
    for connect in ("h", "h:2181/kafka", "a.b:1,127.0.0.1:2/x/y"):
        named = {**NEEDED, "zk.connect": connect}
        assert BrokerConfig.from_properties(named).zookeeper == connect
    assert BrokerConfig.from_properties({**named, "enable.zookeeper": "false"}).zookeeper is None
    with pytest.raises(OptionError, match=r"zk\.connect is missing"):
        BrokerConfig.from_properties({**NEEDED, "enable.zookeeper": "true"})


@for_each(
    ("name", "text", "reason"),
    [
        ("broker.id", "0", "unknown to a 0.7.2 broker"),
        ("log.dirs", "/a", "unknown to a 0.7.2 broker"),
        ("topic.log.retention.size", "a:1", "unknown to a 0.7.2 broker"),
        ("brokerid", "-1", "must be from 0 to 2147483647"),
        ("port", "65536", "must be from 0 to 65535"),
        ("port", "", "must be a whole number"),
        ("port", "9_092", "must be a whole number"),
        ("port", "9092.0", "must be a whole number"),
        ("num.partitions", "0", "must be from 1"),
        ("log.file.size", "4", "must be from 5"),
        ("log.dir", "", "must not be empty"),
        ("zk.connect", "host:port", "must be host:port,host:port/chroot"),
        ("zk.connect", "", "must be host:port,host:port/chroot"),
        ("zk.connect", "h:1,,h:2", "must be host:port,host:port/chroot"),
        ("enable.zookeeper", "yes", "must be true or false"),
        ("topic.partition.count.map", "a", "must be topic:number"),
        ("topic.partition.count.map", "a:x", "must be a whole number"),
        ("topic.partition.count.map", "a:0", "must be from 1"),
    ],
)
def test_a_wrong_property_is_named_in_one_line(name: str, text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as raised:
        BrokerConfig.from_properties({**NEEDED, name: text})
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_property_is_named(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}' is missing"):
        BrokerConfig.from_properties({key: text for key, text in NEEDED.items() if key != name})
