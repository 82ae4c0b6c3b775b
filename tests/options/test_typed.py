"""Options of typed keys and values, and of the schema registry: what they need, and what excludes what."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.logins.tokens.oauth import ClientCredentials
from spark_kafkawire.net.tls import OF_REGISTRY, Tls
from spark_kafkawire.options import ReadOptions, StreamOptions, TypedOptions, WriteOptions
from spark_kafkawire.options.typed import SCHEMA_BYTES_MAX
from spark_kafkawire.values.formats import FORMATS
from tests.support.cases import for_each
from tests.support.certificates import KEY_PASSWORD, Certificates

SECRET: Final = "s3cret"
URL: Final = "schema.registry.url"
AVRO: Final = {"valueFormat": "avro", URL: "http://r:8081"}
#: The formats with schemas, as errors list them.
ANY: Final = " or ".join(FORMATS)
BASE: Final = {"kafka.bootstrap.servers": "h:9092"}


def typed(**changes: str) -> TypedOptions:
    result = ReadOptions.parse({**BASE, "subscribe": "t", **changes}).typed
    assert result is not None
    return result


def refusal(kind: Any = ReadOptions, **changes: str) -> str:
    base = BASE if kind is WriteOptions else {**BASE, "subscribe": "t"}
    with pytest.raises(OptionError) as error:
        kind.parse({**base, **changes})
    message = str(error.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


@for_each(
    ("changes", "beginning"),
    [
        ({"valueFormat": "avro"}, "option valueFormat: avro needs schema.registry.url, the schema registry;"),
        ({"keyFormat": "avro", "keySchema": "int"}, "option keyFormat: avro needs schema.registry.url, the "),
        ({"valueFormat": "avro", "schemaIdFrom": "none"}, "option valueFormat: avro needs schema.registry.u"),
        ({"valueFormat": "avro", "schemaIdFrom": "none", "valueSchemaVersion": "1"},
         "option valueSchemaVersion names a schema of a registry, and schema.registry.url is not set; "
         "set it"),
        ({**AVRO, "valueSchema": "int", "valueSchemaVersion": "1"},
         "options valueSchema and valueSchemaVersion both name a schema; set one of them"),
        ({**AVRO, "keySchema": "int"}, f"option keySchema needs keyFormat={ANY}, which is not set; set it, "),
        ({"valueFormat": "string", "valueSubject": "s"}, f"option valueSubject needs valueFormat={ANY}, whi"),
        ({"schemaIdFrom": "none"}, f"option schemaIdFrom needs valueFormat or keyFormat of {ANY}, w"),
        ({**AVRO, "valueMessage": "M"}, "option valueMessage needs valueFormat=protobuf, which is not set; "),
        ({**AVRO, "keyFormat": "string", "keyMessage": "M"}, "option keyMessage needs keyFormat=protobuf, w"),
        ({**AVRO, "valueFormat": "protobuf", "valueMessage": " . "}, "option valueMessage: ' . ' is not the"),
        ({"valueFormat": "json", "recursive.fields.max.depth": "3"},
         "option recursive.fields.max.depth needs valueFormat or keyFormat of avro or protobuf, which is n"),
        ({"valueFormat": "avro", "valueSchema": "int", "schemaIdFrom": "none", "basic.auth.user.info": "a:b"},
         "option basic.auth.user.info is for a schema registry, and schema.registry.url is not set; set it"),
        ({**AVRO, "valueSchemaVersion": "0"}, "option valueSchemaVersion: '0' is not a version of the subje"),
        ({**AVRO, "valueSchemaVersion": "id:2147483648"}, "option valueSchemaVersion: 'id:2147483648' is no"),
        ({**AVRO, "valueSubject": " "}, "option valueSubject: ' ' is not the name of a subject of the schem"),
        ({**AVRO, "subjectNameStrategy": "io.confluent.TopicNameStrategy"},
         "option subjectNameStrategy: 'io.confluent.topicnamestrategy' is not topicname or recordname or to"),
    ],
)  # fmt: skip
def test_options_that_lack_or_exclude_another_one_are_refused(
    changes: dict[str, str], beginning: str
) -> None:
    assert refusal(**changes).startswith(beginning)


def test_a_write_derives_its_schema_and_needs_a_registry_for_ids() -> None:
    assert WriteOptions.parse({**BASE, "valueFormat": "avro", "schemaIdFrom": "none"}).typed
    assert refusal(WriteOptions, valueFormat="avro") == (
        "option valueFormat: avro needs schema.registry.url, the schema registry; for messages without the "
        "id of a schema set schemaIdFrom=none"
    )
    assert refusal(
        WriteOptions, valueFormat="avro", schemaIdFrom="none", autoRegisterSchemas="true"
    ).startswith("option autoRegisterSchemas needs schema.registry.url, which is not set; ")


def test_json_is_read_without_the_schemas_of_writers() -> None:
    for changes in ({}, {"schemaIdFrom": "none"}, {"valueSchema": "{}", "schemaIdFrom": "prefix"}):
        result = typed(valueFormat="json", **changes)
        assert (result.value.format, result.registry) == ("json", None)
    assert refusal(valueFormat="json", valueSchemaVersion="1") == (
        "option valueSchemaVersion names a schema of a registry, and schema.registry.url is not set; set it"
    )
    for source, ids in (({}, "none"), ({"schemaIdFrom": "prefix"}, "prefix")):
        assert typed(valueFormat="json", **source).schema_id_from == ids
    plain = WriteOptions.parse({**BASE, "valueFormat": "json"}).typed
    assert plain is not None
    assert plain.schema_id_from == "none"
    assert refusal(WriteOptions, valueFormat="json", schemaIdFrom="prefix").startswith(
        "option valueFormat: json needs schema.registry.url, the schema registry; for messages without the id"
    )


def test_headers_of_07_and_logins_in_urls_are_refused() -> None:
    given = {"zookeeper.connect": "h:2181", "subscribe": "t", **AVRO}
    assert ReadOptions.parse(given).typed
    with pytest.raises(
        OptionError, match=r"^option schemaIdFrom: Kafka 0\.7 has no headers; set prefix or none$"
    ):
        ReadOptions.parse({**given, "schemaIdFrom": "header"})
    message = refusal(valueFormat="avro", **{URL: f"http://a,http://me:{SECRET}@r:8081"})
    assert message.startswith("option schema.registry.url: a URL with a login is not supported")
    assert message.endswith("; set basic.auth.user.info")


def test_a_stream_may_end_on_new_fields() -> None:
    base = {**BASE, "subscribe": "t"}
    stream = StreamOptions.parse({**base, **AVRO, "avroSchemaEvolutionMode": "restart"}).read.typed
    assert stream is not None
    assert stream.ends_on_new_fields
    assert not typed(**AVRO).ends_on_new_fields
    assert refusal(StreamOptions, valueFormat="string", avroSchemaEvolutionMode="restart") == (
        "option avroSchemaEvolutionMode=restart is for valueFormat=avro or keyFormat=avro, which are not "
        "set; set one of them, or leave it out"
    )
    assert StreamOptions.parse({**base, "avroSchemaEvolutionMode": "none"}).read.typed is None


# Schemas


def test_a_schema_is_a_text_or_a_file_on_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "größe.avsc"
    file.write_text('{"type": "string"}', "utf-8")
    for given, text in ((str(file), '{"type": "string"}'), (f" {file}\n".strip("\n"), '{"type": "string"}')):
        assert typed(**AVRO, valueSchema=given).value.schema_text == text
    for inline in ('["null","int"]', '"string"', "INT", "message M {}", 'syntax = "proto3";\n'):
        assert typed(**AVRO, valueSchema=inline).value.schema_text == inline


def test_a_file_that_is_no_schema_is_refused(tmp_path: Path) -> None:
    advice = "; give the text of a schema, or the path of a file on the driver that holds it"

    def refused(path: Path | str) -> str:
        return refusal(**AVRO, valueSchema=str(path))

    for missing in (tmp_path / "missing", ""):
        assert refused(missing) == (
            f"option valueSchema: '{missing}' cannot be read on the driver: No such file or directory{advice}"
        )
    assert "it cannot be a file's name" in refused("a\0b")
    assert "Is a directory" in refused(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "it is a pipe" in refused(pipe)
    latin = tmp_path / "latin"
    latin.write_bytes(b'"\xe4"')
    assert refused(latin) == f"option valueSchema: the file '{latin}' is not UTF-8{advice}"
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(SCHEMA_BYTES_MAX + 1)
    assert refused(large) == f"option valueSchema: '{large}' is longer than {SCHEMA_BYTES_MAX} bytes{advice}"


# The registry


@for_each(
    ("changes", "beginning"),
    [
        *(({URL: url}, "option schema.registry.url: '") for url in (
            "", "r:8081", "ftp://r", "http://", "http://r:0", "http://a,", "http://a b", "http://a?x=1",
            "http://a#f")),
        ({"basic.auth.user.info": SECRET}, "option basic.auth.user.info is not of the form"),
        ({"basic.auth.user.info": f":{SECRET}"}, "option basic.auth.user.info is not of the form"),
        ({"basic.auth.user.info": f"a:{SECRET}\r\nX: y"}, "option basic.auth.user.info is not of the form"),
        ({"basic.auth.user.info": ""}, "option basic.auth.user.info is not set: set it"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "option basic.auth.user.info is not set: set it"),
        ({"basic.auth.credentials.source": "URL"}, "option basic.auth.credentials.source: 'url' is not"),
        ({"basic.auth.user.info": f"a:{SECRET}", "bearer.auth.token": SECRET},
         "options basic.auth.user.info and bearer.auth.token are two logins"),
        ({"bearer.auth.token": f"{SECRET} {SECRET}"}, "option bearer.auth.token is not one word of ASCII"),
        ({"bearer.auth.token": ""}, "option bearer.auth.token is not set: set it"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "option bearer.auth.token is not set: set it"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "option bearer.auth.issuer.endpoint.url"),
        ({"bearer.auth.client.id": "me"}, "option bearer.auth.issuer.endpoint.url is not set: set it"),
        ({"bearer.auth.issuer.endpoint.url": "https://i/t"}, "option bearer.auth.client.id is not set"),
        ({"bearer.auth.token": SECRET, "bearer.auth.scope": "s"}, "option bearer.auth.scope is for a client"),
        ({"bearer.auth.token": SECRET, "bearer.auth.logical.cluster": "a\r\nb"},
         "option bearer.auth.logical.cluster: 'a\\r\\nb' is not one word of ASCII"),
        ({"bearer.auth.issuer.endpoint.url": "http://i/t", "bearer.auth.client.id": "me",
          "bearer.auth.client.secret": SECRET}, "option bearer.auth.issuer.endpoint.url is not of the form https://"),
    ],
)  # fmt: skip
def test_refuse_and_hide_an_invalid_url_or_half_a_login(changes: dict[str, str], beginning: str) -> None:
    assert refusal(**{**AVRO, **changes}).startswith(beginning)


def test_https_has_the_stores_of_its_own_options(certificates: Certificates) -> None:
    result = typed(
        **{
            **AVRO,
            URL: "https://r",
            "schema.registry.ssl.truststore.location": str(certificates.authority),
            "schema.registry.ssl.keystore.location": str(certificates.client_encrypted),
            "schema.registry.ssl.key.password": KEY_PASSWORD,
        }
    ).registry
    assert result is not None
    assert result.tls == Tls(
        certificates.authority.read_text(),
        certificates.client_encrypted.read_text(),
        KEY_PASSWORD,
        names=OF_REGISTRY,
    )
    assert pickle.loads(pickle.dumps(result)) == result
    assert hash(pickle.loads(pickle.dumps(result))) == hash(result)
    for secret in (KEY_PASSWORD, "-----BEGIN"):
        assert secret not in repr(result)
    assert "option schema.registry.ssl.truststore.location: " in refusal(
        **{**AVRO, URL: "https://r", "schema.registry.ssl.truststore.location": "/missing"}
    )


def test_tokens_are_got_with_the_trust_of_the_registry(certificates: Certificates) -> None:
    login = {
        "bearer.auth.issuer.endpoint.url": " https://i/t ",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": SECRET,
        "schema.registry.ssl.truststore.location": str(certificates.authority),
    }
    result = typed(**AVRO, **login).registry
    assert result is not None
    assert isinstance(result.login, ClientCredentials)
    assert result.tls is None
    assert result.login.tls == Tls(certificates.authority.read_text(), names=OF_REGISTRY)
    assert SECRET not in repr(result)


def test_unused_options_of_a_registry_are_logged(
    caplog: pytest.LogCaptureFixture, certificates: Certificates
) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    typed(**AVRO, **{"schema.registry.ssl.keystore.location": str(certificates.client)})
    assert caplog.messages == [
        "schema.registry.url with http:// does not use schema.registry.ssl.keystore.location"
    ]
    caplog.clear()
    read = ReadOptions.parse(
        {**BASE, "subscribe": "t", URL: "http://r", "basic.auth.user.info": f"a:{SECRET}"}
    )
    assert read.typed is None
    assert caplog.messages == [
        "without a format that has schemas, schema.registry.url, basic.auth.user.info has no effect"
    ]
