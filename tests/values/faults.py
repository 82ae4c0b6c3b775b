"""Faults of decoded messages."""

from __future__ import annotations

from spark_kafkawire.values.payloads import Decoded


def field_of(decoded: Decoded, row: int) -> str | None:
    """The dotted path of the field that a row's fault is in; None for the message as a whole."""
    index = int(decoded.fields[row])
    return decoded.paths[index] if index >= 0 else None
