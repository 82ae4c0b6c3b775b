"""The highest common version of each request, judged by kafka-python and its table of brokers."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import Any, Final

import pytest

from spark_kafkawire.errors import UnsupportedVersionError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import names
from spark_kafkawire.protocol.modern.end_txn import EndTxnRequest
from spark_kafkawire.protocol.modern.limits import ACKS_ALL
from spark_kafkawire.protocol.modern.metadata import MetadataResponse
from spark_kafkawire.protocol.modern.produce import ProduceRequest
from spark_kafkawire.protocol.modern.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafkawire.protocol.versions import BrokerVersions
from tests.support.cases import for_each
from tests.support.failing_case import failing_case

from .judges import BROKERS, kafka_python_choice, kafka_python_knows, throttles_since
from .messages import wired


def test_the_dialect_has_all_apis_that_are_named_in_the_order_of_their_keys() -> None:
    named = [each for each in vars(names).values() if isinstance(each, names.ApiName)]
    assert [(api.name, api.key) for api in modern.DIALECT.apis] == sorted(named, key=lambda each: each.key)


@for_each("broker", BROKERS, ids=str)
def test_the_version_is_the_one_that_kafka_python_chooses(broker: tuple[int, ...]) -> None:
    versions = BrokerVersions({key: VersionRange(*offered) for key, offered in BROKERS[broker].items()})
    for api in filter(kafka_python_knows, modern.DIALECT.apis):
        with failing_case(api.name):
            expected = kafka_python_choice(api, broker)
            if expected is None:
                with pytest.raises(UnsupportedVersionError, match=rf" {api.name}(:| \()"):
                    versions.highest_common(api)
            else:
                assert versions.highest_common(api) == expected


@pytest.mark.parametrize("broker", [(0, 8, 2), (0, 9)], ids=str)
def test_brokers_that_cannot_be_asked_are_told_what_they_know(broker: tuple[int, ...]) -> None:
    assert modern.API_VERSIONS.key not in BROKERS[broker]
    for key, offered in modern.BEFORE_API_VERSIONS.ranges.items():
        known = VersionRange(*BROKERS[broker][key])
        assert known.min <= offered.min <= offered.max <= known.max


@for_each("api", [*modern.DIALECT.apis], ids=lambda api: api.name)
def test_what_brokers_that_cannot_be_asked_lack_is_refused(api: Api) -> None:
    if api.key in modern.BEFORE_API_VERSIONS.ranges:
        assert modern.BEFORE_API_VERSIONS.highest_common(api) in api.versions
        return
    with pytest.raises(UnsupportedVersionError, match=f"does not offer {api.name} .* too old"):
        modern.BEFORE_API_VERSIONS.highest_common(api)


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (VersionRange(101, 107), "the broker offers 101-107, this client supports 4-9"),
        (VersionRange(-3, -1), "the broker offers -3--1, this client supports 4-9"),
        (VersionRange(9, 2), "the broker offers 9-2, this client supports 4-9"),
        (VersionRange(15, 15), "the broker offers 15, this client supports 4-9"),
    ],
)
def test_no_common_version_names_the_request_and_both_ranges(offered: VersionRange, message: str) -> None:
    api = dataclasses.replace(modern.FETCH, versions=VersionRange(4, 9))
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions({api.key: offered}).highest_common(api)
    assert str(caught.value) == f"no common version of Fetch: {message}"
    assert not caught.value.retriable


OF_TRANSACTION: Final[dict[str, Any]] = {"transactional_id": "t", "transaction_version": 2}
OF_PRODUCER: Final[dict[str, Any]] = {**OF_TRANSACTION, "producer_id": 1, "producer_epoch": 0}


@pytest.mark.parametrize(
    ("api", "request_", "since"),
    [
        (
            modern.PRODUCE,
            ProduceRequest(**OF_TRANSACTION, acks=ACKS_ALL, timeout_ms=1, topic_data=()),
            12,
        ),
        (modern.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest(**OF_PRODUCER, group_id="g", topics=()), 5),
        (modern.END_TXN, EndTxnRequest(**OF_PRODUCER, committed=True), 5),
    ],
    ids=["Produce", "TxnOffsetCommit", "EndTxn"],
)
def test_a_transaction_of_the_second_protocol_goes_in_no_version_of_the_first(
    api: Api, request_: Any, since: int
) -> None:
    ours = api.versions_of(request_)
    assert ours == VersionRange(since, api.versions.max)
    assert BrokerVersions({api.key: VersionRange(0, since)}).highest_common(api, ours) == since
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions({api.key: VersionRange(0, since - 1)}).highest_common(api, ours)
    assert str(caught.value) == (
        f"no common version of {api.name}: the broker offers 0-{since - 1}, but this request needs {ours}; "
        "another broker of the cluster offers more: upgrade this one, or the proxy in front of it"
    )
    first = dataclasses.replace(request_, transaction_version=1)
    assert api.versions_of(first) == VersionRange(0, since - 1)


#: The description of Produce does not say from which version on brokers answer before they throttle, and
#: kafka-python has none of delegation tokens.
UNDESCRIBED: Final = {
    "Produce": 6,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
}


@for_each("api", [*modern.DIALECT.apis], ids=lambda api: api.name)
def test_a_client_waits_for_throttles_from_the_version_on_that_says_so(api: Api) -> None:
    versions = range(api.versions.max + 1)
    fields = {
        version: [name for name, _ in wired(api.response or type(api), version)] for version in versions
    }
    first = next((version for version, names in fields.items() if "throttle_time_ms" in names), None)
    described = UNDESCRIBED.get(api.name, throttles_since(api))
    # APIs that are newer than KIP-219 say nothing of it: their brokers have always done so.
    assert api.throttles_since == (first if described is None else described)


def test_a_throttle_counts_in_those_versions_alone() -> None:
    response = MetadataResponse(brokers=(), topics=(), throttle_time_ms=70)
    waits = [modern.METADATA.throttle_time_ms(response, version) for version in range(13)]
    assert waits == [0] * 6 + [70] * 7
    assert modern.SASL_HANDSHAKE.throttle_time_ms(object(), 1) == 0


#: A line of the notes: one version or several, and what they added.
NOTE: Final = re.compile(r"    (\d+)(?:-(\d+))? +(\S.*)")


def notes(api: Api) -> dict[int, str]:
    """Additions of each version, as the head of an API's module lists them."""
    head = sys.modules[api.request.__module__].__doc__ or ""
    _, _, lines = head.partition(f"Versions of {api.name}::\n\n")
    found: dict[int, str] = {}
    for line in lines.partition("\n\n")[0].splitlines():
        match = NOTE.fullmatch(line)
        assert match, f"{api.name}: {line}"
        first, last, what = match.groups()
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), what)
    return found


@for_each("api", [*modern.DIALECT.apis], ids=lambda api: api.name)
def test_the_head_of_each_module_tells_what_each_version_added(api: Api) -> None:
    found = notes(api)
    assert list(found) == list(range(len(found)))
    spoken = {version for version, what in found.items() if not what.startswith("not spoken: ")}
    assert spoken == set(range(api.versions.min, api.versions.max + 1))
    assert [version for version, what in found.items() if what.startswith("flexible")] == (
        [] if api.flexible_since is None else [api.flexible_since]
    )
    assert [version for version, what in found.items() if "throttled responses come at once" in what] == (
        [] if api.throttles_since is None else [api.throttles_since]
    )
