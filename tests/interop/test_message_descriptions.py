"""All declared messages beside Kafka's own descriptions of them, which the newest release has in its jar of
clients: a new release is a list of differences here."""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VERSION_MAX, Api
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.protocol.primitives import Array, Bool, Bytes, Int, String, Uuid
from spark_kafkawire.protocol.schema import REQUIRED, Struct

from .jars import broker_jars
from .versions import NEWEST, needs_broker

#: Differences that are meant: text of each, and why.
MEANT: Final = {
    "AddPartitionsToTxn: versions up to 5, not 3": "4 and 5 are for brokers",
    "FindCoordinator: versions up to 6, not 4": "nothing of 5 and 6 is asked for",
    "InitProducerId: versions up to 5, not 6": "unstable, and asked for by twoPhaseCommit alone",
    "StreamsGroupDescribe: versions up to 1, not 0": "nothing of 1 is asked for",
    "ApiVersions request: client_software_name string = , not spark-kafkawire": "this client",
    "ApiVersions request: client_software_version string = , not unknown": "this client",
    "CreateDelegationToken request: max_lifetime_ms int64 = 0, not -1": "the broker's setting",
    "ExpireDelegationToken request: expiry_time_period_ms int64 = 0, not -1": "at once",
    "RenewDelegationToken request: renew_period_ms int64 = 0, not -1": "the broker's setting",
    "FindCoordinator response: node_id int32 = 0, not -1": "no coordinator",
    "FindCoordinator response: port int32 = 0, not -1": "no coordinator",
    "InitProducerId request: Kafka: enable2_pc bool": "enable_2pc",
    "InitProducerId request: declared: enable_2pc bool": "enable2Pc",
    "InitProducerId request: transaction_timeout_ms int32 = 0, not 2147483647": "no transaction",
    "ListOffsets request: replica_id int32 = 0, not -1": "a consumer",
    "OffsetFetch response: groups []struct = , not null": "None tells an old version",
    "FindCoordinator response: coordinators []struct = , not null": "None tells an old version",
}
#: Tagged fields that nothing here reads or sends.
NOT_DECLARED: Final = {
    "ApiVersions response: finalized_features_epoch",
    "ApiVersions response: supported_features",
    "ApiVersions response: zk_migration_ready",
    "CreateTopics response: topics.topic_config_error_code",
    "Fetch request: cluster_id",
    "Fetch request: replica_state",
    "Fetch request: topics.partitions.high_watermark",
    "Fetch request: topics.partitions.replica_directory_id",
    "Fetch response: node_endpoints",
    "Fetch response: responses.partitions.current_leader",
    "Fetch response: responses.partitions.diverging_epoch",
    "Fetch response: responses.partitions.snapshot_id",
    "Produce response: node_endpoints",
    "Produce response: responses.partition_responses.current_leader",
}


def _descriptions() -> dict[str, Any]:
    needs_broker(NEWEST)
    [jar] = broker_jars(NEWEST).glob(f"kafka-clients-{NEWEST}.jar")
    with zipfile.ZipFile(jar) as archive:
        texts = {
            Path(name).stem: archive.read(name).decode()
            for name in archive.namelist()
            if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name)
        }
    return {name: json.loads(re.sub(r"(?m)^\s*//.*$", "", text)) for name, text in texts.items()}


def test_every_declared_field_is_that_of_the_newest_kafka(subtests: pytest.Subtests) -> None:
    descriptions = _descriptions()
    result: dict[str, None] = {}
    left_out: set[str] = set()
    for api in modern.DIALECT.apis:
        with subtests.test(api.name):
            request, response = descriptions[f"{api.name}Request"], descriptions[f"{api.name}Response"]
            lines = list(_differences(api, request, response, left_out))
            assert [line for line in lines if line not in MEANT] == []
            result |= dict.fromkeys(lines)
    assert result.keys() == MEANT.keys()
    assert left_out == NOT_DECLARED


def _differences(api: Api, request: Any, response: Any, left_out: set[str]) -> Iterator[str]:
    assert (api.key, api.response is None) == (request["apiKey"], False)
    offered = _versions(request["validVersions"])
    newest = offered.stop - 1 - bool(request.get("latestVersionUnstable"))
    if newest != api.versions.max:
        yield f"{api.name}: versions up to {newest}, not {api.versions.max}"
    flexible = _versions(request["flexibleVersions"])
    for kind, theirs, ours in (("request", request, api.request), ("response", response, api.response)):
        for version in range(max(offered.start, api.versions.min), api.versions.max + 1):
            if api.is_flexible(version) != (version in flexible):
                yield f"{api.name} {version}: it is flexible in one of both"
            structs = {item["name"]: item["fields"] for item in theirs.get("commonStructs", ())}
            wanted, message = dict(_described(theirs["fields"], version, structs)), f"{api.name} {kind}: "
            for line in [line for line in wanted if ", tag " in line]:
                name = line.partition(" ")[0]
                if f"{message}{name}" in NOT_DECLARED:
                    left_out.add(f"{message}{name}")
                    inside = (f"{name} ", f"{name}.")
                    wanted = {key: value for key, value in wanted.items() if not key.startswith(inside)}
            there = dict(_declared(ours, version, api.is_flexible(version)))
            for line in dict.fromkeys([*wanted, *there]):
                if (line in wanted) != (line in there):
                    yield f"{api.name} {kind}: {'Kafka' if line in wanted else 'declared'}: {line}"
                elif None is not there[line] != wanted[line] is not None:
                    yield f"{api.name} {kind}: {line} = {wanted[line]}, not {there[line]}"
            if wanted.keys() == there.keys() and list(wanted) != list(there):
                yield f"{api.name} {kind} {version}: its fields are in another order"


def _versions(text: str) -> range:
    """``3``, ``3-5``, ``3+`` and ``none``."""
    if text == "none":
        return range(0)
    first, _, last = text.replace("+", f"-{VERSION_MAX}").partition("-")
    return range(int(first), int(last or first) + 1)


#: A line for each field of one version, in the order on the wire, with its default; None for any.
_Fields = Iterator[tuple[str, str | None]]


def _described(fields: Any, version: int, structs: Any, place: str = "") -> _Fields:
    here = [item for item in fields if version in _versions(item["versions"])]
    for item in sorted(here, key=lambda item: item.get("tag", -1)):
        kind, is_list = item["type"].removeprefix("[]"), item["type"].startswith("[]")
        name = place + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", item["name"]).lower()
        inner = item.get("fields") or structs.get(kind)
        kind = "struct" if inner else {"records": "bytes"}.get(kind, kind)
        nullable = version in _versions(item.get("nullableVersions", "none"))
        default = item.get("default", _NOTHING.get("[]" if is_list else kind, 0))
        default = int(str(default), 0) if kind.startswith(("int", "uint")) and not is_list else default
        default = None if nullable and "default" not in item else str(default).lower()
        yield _line(name, kind, is_list, nullable, item.get("tag")), default
        if inner:
            yield from _described(inner, version, structs, f"{name}.")


def _declared(message: Any, version: int, flexible: bool, place: str = "") -> _Fields:
    defaults = {item.name: item.default for item in dataclasses.fields(message)}
    for name, wire_type, tag in Struct(message, version, flexible).members():
        is_list = isinstance(wire_type, Array)
        element: Any = wire_type.element if isinstance(wire_type, Array) else wire_type
        kind = _KINDS.get(type(element), "struct")
        if isinstance(element, Int):
            kind = f"{'' if element.signed else 'u'}int{8 * element.size}"
        nullable = getattr(wire_type, "nullable", False)
        yield _line(place + name, kind, is_list, nullable, tag), _text(defaults[name])
        if isinstance(element, Struct):
            yield from _declared(element.message, version, flexible, f"{place}{name}.")


def _line(name: str, kind: str, is_list: bool, nullable: bool, tag: int | None) -> str:
    kind = f"[]{kind}" if is_list else kind
    return f"{name} {kind}{' or null' if nullable else ''}{'' if tag is None else f', tag {tag}'}"


def _text(default: Any) -> str | None:
    """A default as Kafka's descriptions write it."""
    if dataclasses.is_dataclass(default):  # a struct of defaults
        return "struct"
    words = {REQUIRED: None, None: "null", (): "", False: "false", True: "true", NO_TOPIC_ID: "0"}
    # False equals 0, and True 1.
    return str(default) if type(default) is int else words.get(default, str(default))


#: Defaults of fields whose description gives none.
_NOTHING: Final = {"[]": "", "string": "", "bytes": "", "bool": "false", "struct": "struct"}
_KINDS: Final = {String: "string", Bool: "bool", Bytes: "bytes", Uuid: "uuid"}
