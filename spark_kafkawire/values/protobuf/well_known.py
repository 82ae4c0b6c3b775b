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


def _enum(name: str, prefix: str, values: str) -> str:
    """An enum whose values are numbered from 0."""
    numbered = " ".join(f"{prefix}{value} = {number};" for number, value in enumerate(values.split()))
    return f"enum {name} {{ {numbered} }}"


_GOOGLE: Final = "google.protobuf"
_TYPE: Final = "google.type"
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
        "google/protobuf/api.proto": _proto3(
            _GOOGLE,
            'import "google/protobuf/source_context.proto"; import "google/protobuf/type.proto";',
            "message Api { string name = 1; repeated Method methods = 2; repeated Option options = 3;"
            " string version = 4; SourceContext source_context = 5; repeated Mixin mixins = 6;"
            " Syntax syntax = 7; string edition = 8; }",
            "message Method { string name = 1; string request_type_url = 2; bool request_streaming = 3;"
            " string response_type_url = 4; bool response_streaming = 5; repeated Option options = 6;"
            " Syntax syntax = 7; string edition = 8; }",
            "message Mixin { string name = 1; string root = 2; }",
        ),
        "google/protobuf/type.proto": _proto3(
            _GOOGLE,
            'import "google/protobuf/any.proto"; import "google/protobuf/source_context.proto";',
            "message Type { string name = 1; repeated Field fields = 2; repeated string oneofs = 3;"
            " repeated Option options = 4; SourceContext source_context = 5; Syntax syntax = 6;"
            " string edition = 7; }",
            "message Field { Kind kind = 1; Cardinality cardinality = 2; int32 number = 3; string name = 4;"
            " string type_url = 6; int32 oneof_index = 7; bool packed = 8; repeated Option options = 9;"
            " string json_name = 10; string default_value = 11; "
            + _enum(
                "Kind",
                "TYPE_",
                "UNKNOWN DOUBLE FLOAT INT64 UINT64 INT32 FIXED64 FIXED32 BOOL STRING GROUP MESSAGE BYTES"
                " UINT32 ENUM SFIXED32 SFIXED64 SINT32 SINT64",
            )
            + _enum("Cardinality", "CARDINALITY_", "UNKNOWN OPTIONAL REQUIRED REPEATED")
            + " }",
            "message Enum { string name = 1; repeated EnumValue enumvalue = 2; repeated Option options = 3;"
            " SourceContext source_context = 4; Syntax syntax = 5; string edition = 6; }",
            "message EnumValue { string name = 1; int32 number = 2; repeated Option options = 3; }",
            "message Option { string name = 1; Any value = 2; }",
            _enum("Syntax", "SYNTAX_", "PROTO2 PROTO3 EDITIONS"),
        ),
        "google/type/calendar_period.proto": _proto3(
            _TYPE,
            _enum(
                "CalendarPeriod",
                "",
                "CALENDAR_PERIOD_UNSPECIFIED DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR",
            ),
        ),
        "google/type/color.proto": _proto3(
            _TYPE,
            'import "google/protobuf/wrappers.proto";',
            "message Color { float red = 1; float green = 2; float blue = 3;"
            " google.protobuf.FloatValue alpha = 4; }",
        ),
        "google/type/datetime.proto": _proto3(
            _TYPE,
            'import "google/protobuf/duration.proto";',
            "message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4;"
            " int32 minutes = 5; int32 seconds = 6; int32 nanos = 7;"
            " oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }",
            "message TimeZone { string id = 1; string version = 2; }",
        ),
        "google/type/dayofweek.proto": _proto3(
            _TYPE,
            _enum(
                "DayOfWeek",
                "",
                "DAY_OF_WEEK_UNSPECIFIED MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY",
            ),
        ),
        "google/type/decimal.proto": _proto3(_TYPE, "message Decimal { string value = 1; }"),
        "google/type/expr.proto": _proto3(
            _TYPE,
            "message Expr { string expression = 1; string title = 2; string description = 3;"
            " string location = 4; }",
        ),
        "google/type/fraction.proto": _proto3(
            _TYPE, "message Fraction { int64 numerator = 1; int64 denominator = 2; }"
        ),
        "google/type/interval.proto": _proto3(
            _TYPE,
            'import "google/protobuf/timestamp.proto";',
            "message Interval { google.protobuf.Timestamp start_time = 1;"
            " google.protobuf.Timestamp end_time = 2; }",
        ),
        "google/type/localized_text.proto": _proto3(
            _TYPE, "message LocalizedText { string text = 1; string language_code = 2; }"
        ),
        "google/type/month.proto": _proto3(
            _TYPE,
            _enum(
                "Month",
                "",
                "MONTH_UNSPECIFIED JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER"
                " NOVEMBER DECEMBER",
            ),
        ),
        "google/type/phone_number.proto": _proto3(
            _TYPE,
            "message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; }"
            " oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }",
        ),
        "google/type/postal_address.proto": _proto3(
            _TYPE,
            "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3;"
            " string postal_code = 4; string sorting_code = 5; string administrative_area = 6;"
            " string locality = 7; string sublocality = 8; repeated string address_lines = 9;"
            " repeated string recipients = 10; string organization = 11; }",
        ),
        "google/type/quaternion.proto": _proto3(
            _TYPE, "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }"
        ),
        "google/type/date.proto": _proto3(
            _TYPE, "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"
        ),
        "google/type/latlng.proto": _proto3(
            _TYPE, "message LatLng { double latitude = 1; double longitude = 2; }"
        ),
        "google/type/money.proto": _proto3(
            _TYPE, "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"
        ),
        "google/type/timeofday.proto": _proto3(
            _TYPE,
            "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
        ),
        "confluent/type/decimal.proto": _proto3(
            "confluent.type", "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
        ),
    }
)
