"""Names of the subjects under which a schema registry keeps the schemas of a topic's keys and values."""

from __future__ import annotations

from ..errors import OptionError


def subject_of(strategy: str, topic: str, record: str | None, *, is_key: bool) -> str:
    """The subject by ``subjectNameStrategy``. ``record`` is the full name of the schema's record or message.

    Raises ``OptionError`` (fatal) if the strategy needs a record and there is no name.

    Source: Confluent's TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy.
    """
    column = "key" if is_key else "value"
    if strategy == "TopicName":
        return f"{topic}-{column}"
    if record is None:
        raise OptionError(
            f"option subjectNameStrategy: {strategy} needs a schema that has a name, and this one has none; "
            f"set {column}Subject"
        )
    return record if strategy == "RecordName" else f"{topic}-{record}"
