"""Schemas that every Protobuf schema may import without a reference.

Source: https://protobuf.dev/reference/protobuf/google.protobuf/, googleapis' ``google/type`` and Confluent's
``confluent/type/decimal.proto``. Types of descriptors and options are left out: no message contains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _proto3(package: str, *declarations: str) -> str:
    return f'syntax = "proto3"; package {package}; ' + " ".join(declarations)


def _wrapper(name: str, of: str) -> str:
    return f"message {name} {{ {of} value = 1; }}"


_GOOGLE: Final = "google.protobuf"
_TIME: Final = "{ int64 seconds = 1; int32 nanos = 2; }"

#: The text of each schema by the name with which it is imported.
WELL_KNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "google/protobuf/any.proto": _proto3(
            _GOOGLE, "message Any { string type_url = 1; bytes value = 2; }"
        ),
        "google/protobuf/duration.proto": _proto3(_GOOGLE, f"message Duration {_TIME}"),
        "google/protobuf/timestamp.proto": _proto3(_GOOGLE, f"message Timestamp {_TIME}"),
        "google/protobuf/empty.proto": _proto3(_GOOGLE, "message Empty {}"),
        "google/protobuf/field_mask.proto": _proto3(
            _GOOGLE, "message FieldMask { repeated string paths = 1; }"
        ),
        "google/protobuf/source_context.proto": _proto3(
            _GOOGLE, "message SourceContext { string file_name = 1; }"
        ),
        "google/protobuf/struct.proto": _proto3(
            _GOOGLE,
            "message Struct { map<string, Value> fields = 1; }",
            "message Value { oneof kind { NullValue null_value = 1; double number_value = 2;"
            " string string_value = 3; bool bool_value = 4; Struct struct_value = 5;"
            " ListValue list_value = 6; } }",
            "enum NullValue { NULL_VALUE = 0; }",
            "message ListValue { repeated Value values = 1; }",
        ),
        "google/protobuf/wrappers.proto": _proto3(
            _GOOGLE,
            _wrapper("DoubleValue", "double"),
            _wrapper("FloatValue", "float"),
            _wrapper("Int64Value", "int64"),
            _wrapper("UInt64Value", "uint64"),
            _wrapper("Int32Value", "int32"),
            _wrapper("UInt32Value", "uint32"),
            _wrapper("BoolValue", "bool"),
            _wrapper("StringValue", "string"),
            _wrapper("BytesValue", "bytes"),
        ),
        "google/type/date.proto": _proto3(
            "google.type", "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"
        ),
        "google/type/latlng.proto": _proto3(
            "google.type", "message LatLng { double latitude = 1; double longitude = 2; }"
        ),
        "google/type/money.proto": _proto3(
            "google.type", "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"
        ),
        "google/type/timeofday.proto": _proto3(
            "google.type",
            "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
        ),
        "confluent/type/decimal.proto": _proto3(
            "confluent.type", "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
        ),
    }
)
