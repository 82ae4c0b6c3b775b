"""The client of a schema registry with a real one, and with Confluent's own client as the judge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_kafkawire.errors import RegistryError, TransportError, UnknownSchemaError
from spark_kafkawire.net.http import Url
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.registry.client import Registry
from spark_kafkawire.registry.schemas import Reference, Schema
from spark_kafkawire.registry.settings import RegistrySettings
from tests.support.noida import HOST

from .apicurio import Apicurio
from .needs import needed_confluent

LONG = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
WITH_DEFAULT = LONG[:-2] + ', {"name": "b", "type": "string", "default": ""}]}'


def client_of(apicurio: Apicurio) -> Registry:
    url = Url.parse(apicurio.url)
    assert url is not None
    return Registry(RegistrySettings((url,), retry=RetryPolicy(retries=1)))


def test_what_is_registered_is_found_by_id_version_and_text(apicurio: Apicurio) -> None:
    writer = client_of(apicurio)
    first, second = (writer.register("orders-value", Schema("AVRO", text)) for text in (LONG, WITH_DEFAULT))
    assert first != second
    reader = client_of(apicurio)
    assert reader.schema(first).schema == Schema("AVRO", LONG)
    assert reader.version("orders-value", 1).id == first
    assert (reader.latest("orders-value").id, reader.latest("orders-value").version) == (second, 2)
    assert reader.look_up("orders-value", Schema("AVRO", LONG)) == first
    assert client_of(apicurio).register("orders-value", Schema("AVRO", LONG)) == first


def test_imports_are_resolved(apicurio: Apicurio) -> None:
    registry = client_of(apicurio)
    base = 'syntax = "proto3"; package p; message Base { int64 id = 1; }'
    whole = 'syntax = "proto3"; package p; import "base.proto"; message Whole { Base base = 1; }'
    registry.register("base", Schema("PROTOBUF", base))
    schema_id = registry.register("whole", Schema("PROTOBUF", whole, (Reference("base.proto", "base", 1),)))
    found = client_of(apicurio).schema(schema_id)
    assert found.format == "PROTOBUF"
    assert list(found.references) == ["base.proto"]
    assert "message Base" in found.references["base.proto"]


def test_what_is_not_registered_is_unknown(apicurio: Apicurio) -> None:
    registry = client_of(apicurio)
    with pytest.raises(UnknownSchemaError):
        registry.schema(123_456)
    with pytest.raises(UnknownSchemaError):
        registry.latest("no such subject")
    # It has no GUIDs, and its answer is not one of a registry.
    with pytest.raises(TransportError, match="HTTP status 404 and no code of a schema registry"):
        registry.schema_of_guid(bytes(16))


def test_a_schema_that_is_none_is_refused_in_the_registrys_own_words(apicurio: Apicurio) -> None:
    with pytest.raises(RegistryError, match="the server refuses the request: HTTP status 4"):
        client_of(apicurio).register("bad", Schema("AVRO", "{"))


def test_confluents_client_finds_what_ours_registers(apicurio: Apicurio) -> None:
    schema_id = client_of(apicurio).register("judged", Schema("AVRO", LONG))
    with needed_confluent().Confluent(apicurio.url) as judge:
        assert judge.client.get_schema(schema_id).schema_str == LONG
        second = judge.register("judged", judge.schema(WITH_DEFAULT))
    assert client_of(apicurio).schema(second).text == WITH_DEFAULT


def test_a_registry_that_is_away_is_no_unknown_schema(apicurio: Apicurio) -> None:
    settings = replace(client_of(apicurio)._settings, urls=(Url("http", HOST, 1, "/", f"{HOST}:1"),))
    with pytest.raises(TransportError, match="cannot connect"):
        Registry(settings).schema(1)
