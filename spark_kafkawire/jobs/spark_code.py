"""Options in code of Spark, in Python or Scala, and options of Spark's own connector as ours."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from typing import Final

from ..errors import OptionError, printable
from ..options.option import is_kafka_property, pass_over
from ..options.table import OPTIONS, STREAM_OPTIONS, find_why_ignored, keep_secrets
from ..secrecy import HIDDEN, without_secrets

_TEXT: Final = r'"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
_VALUE: Final = rf"{_TEXT}|[^\s,()\[\]{{}}]+(?:[(\[][^()\[\]]*[)\]])?"
#: A comment; an option; a pair of a dictionary or a Map; an argument with a name; another text.
_TOKEN: Final = re.compile(
    rf"(?:#|//)[^\n]*|\.\s*option\(\s*(?P<a>{_TEXT})\s*,\s*(?P<av>{_VALUE})|(?P<b>{_TEXT})\s*(?::|->)\s*"
    rf"(?P<bv>{_VALUE})|(?<=[(,\s])(?P<c>\w+)\s*=\s*(?P<cv>{_VALUE})(?=\s*[,)])|{_TEXT}",
    re.DOTALL,
)
_CHAIN: Final = re.compile(r"\.\s*(?:readStream|read|writeStream|write)\b")
_FORMAT: Final = re.compile(r"""format\(\s*["']kafka(?:wire)?["']""")
#: Options of the query, and of other sources.
_OF_SPARK: Final = frozenset(("checkpointlocation", "queryname"))


def options_in(code: str, given: Collection[str] = ()) -> dict[str, str]:
    """The options of the first Kafka source or sink of the code, of all of it if it names no format; without
    those that are ``given``, by their names in lower case.

    Raises ``OptionError`` (fatal) for a value that is no text.
    """
    chains = [chain for chain in _CHAIN.split(code) if _FORMAT.search(chain)]
    result: dict[str, str] = {}
    for match in _TOKEN.finditer(chains[0] if chains else code):
        if (group := match.lastgroup) is None:
            continue
        name, value = _text(match[group[0]]) or match[group[0]], _text(match[group])
        if name.lower() in given or name.lower() in _OF_SPARK:
            continue
        if value is None:
            raise OptionError(
                f"argument --code: the value of {printable(name)} is no text in the code; give it with "
                f"--option {printable(name)}=VALUE"
            )
        result[name] = value
    if not result:
        raise OptionError("argument --code: there is no option of Kafka in the code; paste .option(...) too")
    keep_secrets(result)
    return result


def _text(literal: str) -> str | None:
    if literal.lower() in ("true", "false") or literal.isdecimal():
        return literal.lower()
    if literal[:1] not in ("'", '"'):
        return None
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):
        return None


#: What differs without an error, by the option in lower case.
_DIFFERENCES: Final = {
    "minpartitions": "also splits a partition that holds most of the data",
    "maxrecordsperpartition": "is used by each batch read, whatever minPartitions is",
    "subscribepattern": "takes what patterns of topic names need; anything else is an error",
    "failondataloss": "false: a stream keeps its place where the end of a partition falls",
    "kafka.max.request.size": "bounds all of a request; a record may have as much",
    "maxoffsetspertrigger": "needs Spark 4.2, or queryTrigger=processingTime; 0 or less is an error",
    "minoffsetspertrigger": "needs Spark 4.2, or queryTrigger=processingTime; 0 or less is an error",
    "topic": 'a batch write needs .mode("append")',
}


def as_ours(raw: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options of ``format("kafka")`` as those of ``format("kafkawire")``, without secrets, and what differs,
    by names."""
    known = {option.name.lower(): option for option in (*OPTIONS, *STREAM_OPTIONS)}
    keep_secrets(raw)
    is_read, names = "topic" not in raw, [option.name for option in known.values()]
    ours: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for name, value in raw.items():
        option = known.get(name.lower())
        if option is not None:
            ours[option.name] = HIDDEN if option.secrets and "${" not in value else without_secrets(value)
            if (difference := _DIFFERENCES.get(name.lower())) is not None:
                remarks[option.name] = difference
        elif is_kafka_property(name):
            try:
                pass_over(name, read=is_read)
                remarks[name] = "has no effect and is left out"
            except OptionError as error:
                remarks[name] = str(error)
        elif (ignored := find_why_ignored(name, names, is_read, stream=False)) is not None:
            remarks[name] = f"{ignored[1]}; left out"
        else:
            remarks[name] = "is unknown, which is an error; left out"
    return ours, remarks
