"""Requests of a cluster: topics, configurations, ACLs, delegation tokens."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest
from confluent_kafka.admin import AclOperation as TheirOperation  # type: ignore[attr-defined]
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from spark_kafkawire.cluster.modern import delegation_tokens
from spark_kafkawire.cluster.modern.acls import (
    AclOperation,
    may_do_to_cluster,
    may_do_to_group,
    may_do_to_topic,
)
from spark_kafkawire.cluster.modern.admin import create_topics
from spark_kafkawire.cluster.modern.delegation_tokens import (
    USED_BY_STREAMS,
    expire_tokens,
    login_of_tasks,
    net_of_tasks,
)
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.topic_configs import cleanup_policy
from spark_kafkawire.errors import (
    AuthenticationError,
    BrokerError,
    KafkaWireError,
    UnsupportedVersionError,
)
from spark_kafkawire.kept import forget_all
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.logins import Password
from spark_kafkawire.net.logins.passwords import DelegationToken
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import Security
from spark_kafkawire.options import NetOptions, ReadOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern import admin as messages
from spark_kafkawire.protocol.modern import describe_configs, describe_groups, metadata
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.net.login_broker import LOGINS, SECRET, USER, login_broker
from tests.net.modern_peers import METADATA_RESPONSE, Asked
from tests.net.peers import Peer
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.settings import net_modern, servers

NET = net_modern(timeout_s=5.0, backoff_s=0.001)


def metadata_of(noida: NoidaBroker) -> Metadata:
    return Metadata(servers(noida.bootstrap_servers), NET)


def test_topics_are_created_with_their_partitions_and_known_to_who_created_them(noida: NoidaBroker) -> None:
    create_topics(Metadata((), NET), {}, NET)  # asks nobody
    metadata = metadata_of(noida)
    create_topics(metadata, {"made-1": 1, "made-3": 3}, NET)
    assert metadata.known_leaders([TopicPartition("made-1", 0)])
    for topic, count in (("made-1", 1), ("made-3", 3)):
        partitions = metadata_of(noida).partitions_of(topic)
        assert partitions == tuple(TopicPartition(topic, partition) for partition in range(count))
    librdkafka.produce(noida.bootstrap_servers, "made-3", [Record(b"v", partition=2)])
    assert librdkafka.offsets(noida.bootstrap_servers, "made-3", 2) == (0, 1)


def test_a_topic_that_is_there_is_left_alone(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    create_topics(metadata_of(noida), {topic: 5, "made-beside": 1}, NET)
    metadata = metadata_of(noida)
    assert [len(metadata.partitions_of(name)) for name in (topic, "made-beside")] == [2, 1]


def test_a_refusal_names_the_topic_and_the_controller(noida: NoidaBroker) -> None:
    with pytest.raises(BrokerError) as caught:
        create_topics(metadata_of(noida), {"no good": 1}, NET)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "CreateTopics of 'no good' on broker " in str(caught.value)


def policy(bootstrap_servers: str, topic: str = "t") -> frozenset[str]:
    return cleanup_policy(Metadata(servers(bootstrap_servers), NET), topic)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"delete"}),
        ({"cleanup.policy": "compact"}, {"compact"}),
        ({"cleanup.policy": "compact,delete"}, {"compact", "delete"}),
    ],
)
def test_a_topics_cleanup_policy_is_what_is_in_force(
    noida: NoidaBroker, given: dict[str, str], expected: set[str]
) -> None:
    assert policy(noida.bootstrap_servers, noida.create_topic(config=given)) == expected


def test_a_topic_that_is_not_there_has_no_policy(noida: NoidaBroker) -> None:
    with pytest.raises(BrokerError, match=r"^DescribeConfigs of topic 'never-made': the broker has no such"):
        policy(noida.bootstrap_servers, "never-made")


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_the_policy(version: int) -> None:
    offered = {**OFFERED, modern.DESCRIBE_CONFIGS.key: VersionRange(version, version)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        server.broker.configs["t"] = {"cleanup.policy": " compact , delete"}
        assert policy(server.bootstrap_servers) == {"compact", "delete"}


def test_report_brokers_that_are_too_old() -> None:
    offered = {key: versions for key, versions in OFFERED.items() if key != modern.DESCRIBE_CONFIGS.key}
    with (
        LogServer({"t": [MemoryLog()]}, offered=offered) as server,
        pytest.raises(UnsupportedVersionError, match=r"^DescribeConfigs of topic 't': brokers before"),
    ):
        policy(server.bootstrap_servers)


#: Apache Kafka's AclOperation.java, and below ConfigResource.java.
NUMBERS = {"READ": 3, "WRITE": 4, "DESCRIBE": 8}


def test_operations_and_resources_have_the_numbers_of_kafka() -> None:
    assert {item.name: item.value for item in AclOperation} == NUMBERS
    assert {name: TheirOperation[name].value for name in NUMBERS} == NUMBERS
    assert (describe_configs.TOPIC_RESOURCE, describe_configs.BROKER_RESOURCE) == (2, 4)
    assert (ResourceType.TOPIC.value, ResourceType.BROKER.value) == (2, 4)


@pytest.mark.parametrize("operation", AclOperation)
@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_operation_is_the_bit_of_its_number(operation: AclOperation, is_allowed: bool) -> None:
    bit = 1 << NUMBERS[operation.name]
    bits = bit if is_allowed else 0x7FFFFFFF ^ bit

    def described(request: describe_groups.DescribeGroupsRequest) -> describe_groups.DescribeGroupsResponse:
        group = describe_groups.DescribedGroup(
            error_code=0,
            group_id=request.groups[0],
            group_state="Empty",
            protocol_type="",
            protocol_data="",
            members=(),
            authorized_operations=bits,
        )
        return describe_groups.DescribeGroupsResponse(groups=(group,))

    with LogServer({"t": [MemoryLog()]}) as server:
        honest = server.broker

        def reported(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
            node = metadata.MetadataBroker(node_id=0, host="127.0.0.1", port=server.port)
            topics = tuple(
                metadata.MetadataTopic(
                    error_code=0, name=item.name, partitions=(), topic_authorized_operations=bits
                )
                for item in request.topics or ()
            )
            return metadata.MetadataResponse(
                brokers=(node,), topics=topics, cluster_authorized_operations=bits
            )

        honest.answer_with(metadata.MetadataRequest, reported)
        honest.answer_with(describe_groups.DescribeGroupsRequest, described)
        options = ReadOptions.parse({"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "t"})
        asked = Metadata(options.discovery.bootstrap_servers, options.net)
        assert may_do_to_cluster(asked, operation) is is_allowed
        assert may_do_to_topic(asked, "t", operation) is is_allowed
        assert may_do_to_group(asked, "g", operation, options.net) is is_allowed


#: When the broker began, by its own clock, and what it gives tokens, ms.
BEGAN_MS: Final = 1_750_000_000_000
LIFE_MS: Final = 60_000
LIFE_MS_MAX: Final = 100_000


@dataclass
class Clock:
    """The time since the test began, seconds."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s


@dataclass
class Issuer:
    """A broker's tokens. ``codes`` are errors of the next requests."""

    clock: Clock
    codes: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    created: dict[bytes, int] = field(default_factory=dict)

    def __call__(self, question: Asked) -> object:
        request: Any = question.request
        now_ms = BEGAN_MS + round(1000 * self.clock.now_s)
        if isinstance(request, messages.CreateDelegationTokenRequest):
            self.asked.append("create")
            hmac = b"hmac %d" % len(self.created)
            self.created[hmac] = now_ms + LIFE_MS_MAX
            return messages.CreateDelegationTokenResponse(
                error_code=self._code(),
                principal_type="User",
                principal_name=USER,
                issue_timestamp_ms=now_ms,
                expiry_timestamp_ms=now_ms + LIFE_MS,
                max_timestamp_ms=now_ms + LIFE_MS_MAX,
                token_id=f"token {len(self.created)}",
                hmac=hmac,
                throttle_time_ms=0,
            )
        if isinstance(request, messages.RenewDelegationTokenRequest):
            self.asked.append("renew")
            expires_ms = min(now_ms + LIFE_MS, self.created[bytes(request.hmac)])
            return messages.RenewDelegationTokenResponse(
                error_code=self._code(), expiry_timestamp_ms=expires_ms, throttle_time_ms=0
            )
        if isinstance(request, messages.ExpireDelegationTokenRequest):
            assert request.expiry_time_period_ms == messages.AT_ONCE
            self.asked.append("expire")
            return messages.ExpireDelegationTokenResponse(
                error_code=self._code(), expiry_timestamp_ms=now_ms, throttle_time_ms=0
            )
        return METADATA_RESPONSE

    def _code(self) -> int:
        return self.codes.pop(0) if self.codes else 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(delegation_tokens, "time", result)
    return result


def net_of(peer: Peer, password: str = SECRET) -> NetOptions:
    net = net_modern(timeout_s=10)
    security = Security(sasl=Sasl("PLAIN", Password(USER, password)), delegates=True)
    connection = replace(net.connection, security=security, bootstrap_servers=(peer.broker,))
    return replace(net, connection=connection)


def test_a_token_is_the_login_of_tasks_with_the_best_mechanism(clock: Clock) -> None:
    issuer = Issuer(clock)
    with Peer(login_broker(reply=issuer)) as peer:
        token = login_of_tasks(net_of(peer))
        hmac = base64.b64encode(b"hmac 0").decode()
        assert token == Sasl("SCRAM-SHA-512", DelegationToken("token 1", hmac, 0.0))
        assert hmac not in repr(token)
        assert net_of_tasks(net_of(peer)).connection.security == Security(sasl=token)
        other = {name: LOGINS[name] for name in ("PLAIN", "SCRAM-SHA-256")}
    forget_all()
    with Peer(login_broker(other, reply=issuer)) as peer:
        assert login_of_tasks(net_of(peer)).mechanism == "SCRAM-SHA-256"
    forget_all()
    with (
        Peer(login_broker({"PLAIN": LOGINS["PLAIN"]}, reply=issuer)) as peer,
        pytest.raises(
            AuthenticationError, match="need SCRAM-SHA-512 or SCRAM-SHA-256, and the brokers offer ne"
        ),
    ):
        login_of_tasks(net_of(peer))
    assert issuer.asked == ["create"] * 3


def test_who_has_no_token_of_its_own_is_left_as_it_is(clock: Clock) -> None:
    net = net_modern()
    assert net_of_tasks(net) is net
    expire_tokens(net)
    assert clock.now_s == 0


def test_a_stream_renews_its_token_and_gets_a_new_one_at_the_end(clock: Clock) -> None:
    issuer = Issuer(clock)
    with Peer(login_broker(reply=issuer)) as peer:
        logins = []
        for clock.now_s in (0, 44, 46, 80, 92, 120):
            logins.append(login_of_tasks(net_of(peer), USED_BY_STREAMS))
    assert issuer.asked == ["create", "renew", "create"]
    assert logins == [logins[0]] * 4 + [logins[-1]] * 2
    assert logins[0] != logins[-1]


def test_a_batch_gets_a_token_with_most_of_its_life(clock: Clock) -> None:
    issuer = Issuer(clock)
    with Peer(login_broker(reply=issuer)) as peer:
        for clock.now_s in (0, 5, 7, 12, 50):
            login_of_tasks(net_of(peer))
    assert issuer.asked == ["create", "renew", "create"]


@pytest.mark.parametrize("code", [ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_EXPIRED])
def test_a_token_that_is_gone_is_replaced(clock: Clock, code: int) -> None:
    issuer = Issuer(clock)
    with Peer(login_broker(reply=issuer)) as peer:
        first = login_of_tasks(net_of(peer))
        clock.now_s, issuer.codes = 20, [int(code)]
        assert login_of_tasks(net_of(peer)) != first
    assert issuer.asked == ["create", "renew", "create"]


def test_a_stopped_stream_expires_its_token_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(clock)
    with Peer(login_broker(reply=issuer)) as peer, caplog.at_level(logging.WARNING):
        login_of_tasks(net_of(peer))
        expire_tokens(net_of(peer))
        expire_tokens(net_of(peer))
        assert not caplog.records
        login_of_tasks(net_of(peer))
        issuer.codes = [int(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)]
        expire_tokens(net_of(peer))
    assert issuer.asked == ["create", "expire", "create", "expire"]
    assert "the delegation token of tasks is left to expire: " in caplog.text
    assert "hmac" not in caplog.text


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
            "set delegation.token.secret.key, the same on all brokers",
        ),
        (
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "log in by a listener of SASL_SSL or SASL_PLAINTEXT",
        ),
        (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "ask an administrator for the permission"),
        (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "log in as the user who created it"),
    ],
)
def test_report_brokers_that_give_no_token_with_what_to_do(clock: Clock, code: int, message: str) -> None:
    issuer = Issuer(clock, codes=[int(code)])
    with Peer(login_broker(reply=issuer)) as peer, pytest.raises(BrokerError) as caught:
        login_of_tasks(net_of(peer))
    assert str(caught.value).startswith("CreateDelegationToken: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert issuer.asked == ["create"]


def test_a_controller_that_moves_is_asked_again(clock: Clock) -> None:
    issuer = Issuer(clock, codes=[int(ErrorCode.NOT_CONTROLLER)])
    with Peer(login_broker(reply=issuer)) as peer:
        login_of_tasks(net_of(peer))
    assert issuer.asked == ["create", "create"]


def test_report_a_wrong_password_of_the_driver(clock: Clock) -> None:
    with Peer(login_broker(reply=Issuer(clock))) as peer, pytest.raises(KafkaWireError) as caught:
        login_of_tasks(net_of(peer, "wr0ng"))
    assert "the broker refuses the credentials (error 58" in str(caught.value)
    assert "wr0ng" not in str(caught.value)
