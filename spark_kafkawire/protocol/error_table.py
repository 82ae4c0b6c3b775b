"""The base class of the error code tables of Kafka 0.7 and modern Kafka (0.8 and later).

Each generation of brokers has its own table, because the same number means different things:
``v07.error_codes`` and ``modern.error_codes``.
"""

from __future__ import annotations

import enum

from ..errors import Action, BrokerError, peer_text


class ErrorTable(enum.IntEnum):
    """An error code with the client's next action, the meaning, and the remedy for its reader.

    A subclass lists the codes of one generation as ``NAME = code, action, meaning, remedy``.
    """

    action: Action
    meaning: str
    remedy: str

    def __new__(
        cls, code: int, action: Action = Action.FAIL, meaning: str = "", remedy: str = ""
    ) -> ErrorTable:
        member = int.__new__(cls, code)
        member._value_ = code
        member.action, member.meaning, member.remedy = action, meaning, remedy
        return member

    @classmethod
    def error(cls, code: int, place: str, detail: str | None = None) -> BrokerError:
        """The error for a code at ``place`` (request, topic-partition, broker).

        ``detail`` is the broker's own text about it, where the response has such a field.
        """
        assert code != 0, "0 is no error"
        says = f", it says {peer_text(detail)}" if detail else ""
        try:
            known = cls(code)
        except ValueError:
            return BrokerError(
                f"{place}: the broker answered with the unknown error code {code}{says}; see its log", code
            )
        message = f"{place}: {known.meaning}{says} (error {code} {known.name}); {known.remedy}"
        return BrokerError(message, code, known.action)
