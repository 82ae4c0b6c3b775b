"""PLAIN: the name and the password as they are, which only TLS protects.

Source: RFC 4616.
"""

from __future__ import annotations

from typing import Final

from ..transport import Deadline
from .mechanism import Mechanism, Password, Tokens


def _tokens(credentials: Password, _host: str, _deadline: Deadline) -> Tokens:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


PLAIN: Final = Mechanism("PLAIN", "PlainLoginModule", _tokens)
