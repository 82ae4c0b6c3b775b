"""What the error codes of every generation of brokers have in common.

Each generation lists its own, for the same numbers mean different things: ``v07.error_codes`` and
``modern.error_codes``.
"""

from __future__ import annotations

import enum

from ..errors import Action, BrokerError, said


class ErrorTable(enum.IntEnum):
    """A number, how the client goes on, what happened, and what whoever reads of it may do.

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

        ``detail`` is what the broker itself says of it, where the reply has such a field.
        """
        assert code != 0, "0 is no error"
        says = f", it says {said(detail)}" if detail else ""
        try:
            known = cls(code)
        except ValueError:
            return BrokerError(f"{place}: the broker answered the unknown error code {code}{says}", code)
        message = f"{place}: {known.meaning}{says} (error {code} {known.name}); {known.remedy}"
        return BrokerError(message, code, known.action)
