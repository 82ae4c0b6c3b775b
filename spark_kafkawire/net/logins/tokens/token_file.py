"""Bearer tokens from a file, such as one that Kubernetes projects into a container and renews.

Source: KIP-768 (``file:`` URLs of the token endpoint).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import AuthenticationError, printable, quoted
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.regular_files import open_regular

from .token import Token, is_token

#: Longest file with a token, bytes.
FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token and nothing else, on the machine that connects. Each connection reads it, because
    the file changes when the token is renewed. ``option`` names it, for errors."""

    path: str
    option: str = "kafka.sasl.oauthbearer.token.endpoint.url"

    @property
    def secrets(self) -> tuple[str, ...]:
        """No secrets: a path is not one."""
        return ()

    def fetch(self, _host: str, _deadline: Deadline) -> Token:
        """The token. Raises ``AuthenticationError`` (fatal) if the file has none."""
        return Token(word_in(self.path, self.option))


def word_in(path: str, option: str) -> str:
    """The word that a file holds, with white space around it.

    Raises ``AuthenticationError`` (fatal), which shows nothing of the file.
    """
    text = read_text(path, option).strip()
    if not is_token(text):
        raise AuthenticationError(
            f"option {option}: {quoted(path)} does not hold a token, one word of ASCII (it is not shown); "
            "write the token alone into it"
        )
    return text


def read_text(path: str, option: str) -> str:
    """The text of a small regular file; bytes that are not text are replaced.

    Raises ``AuthenticationError`` (fatal). Never blocks.
    """
    try:
        with open_regular(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise AuthenticationError(
            f"option {option}: {quoted(path)} cannot be read where the client connects: {printable(reason)}; "
            "put it on the driver and on each executor"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise AuthenticationError(
            f"option {option}: {quoted(path)} is longer than {FILE_BYTES_MAX} bytes; is it a token?"
        )
    return data.decode("utf-8", "replace")
