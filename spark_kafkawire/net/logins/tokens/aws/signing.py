"""Signatures of AWS, version 4, in the query of a URL.

Source: AWS, Signature Version 4, authenticating requests with query parameters.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials of AWS: fixed ones of a user, or ones with a session token that expire. Secrets are in no
    repr."""

    access: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain."""
        return (self.secret, *((self.session,) if self.session else ()))


def signed_query(
    host: str,
    service: str,
    region: str,
    keys: Keys,
    parameters: Mapping[str, str],
    expires_s: int,
    now: datetime.datetime,
) -> dict[str, str]:
    """The parameters of ``GET https://host/?…``, not encoded, with those of the signature."""
    stamp = now.astimezone(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = (stamp[:8], region, service, "aws4_request")
    query = {
        **parameters,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": "/".join((keys.access, *scope)),
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": keys.session} if keys.session else {}),
    }
    request = f"GET\n/\n{encoded_query(query)}\nhost:{host}\n\nhost\n{_NO_BODY}"
    text = "\n".join((_ALGORITHM, stamp, "/".join(scope), hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return {**query, "X-Amz-Signature": hmac.digest(key, text.encode(), "sha256").hex()}


def encoded_query(query: Mapping[str, str]) -> str:
    """A query in the order and the spelling in which it is signed."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def now_utc() -> datetime.datetime:
    """The time of signatures."""
    return datetime.datetime.now(datetime.timezone.utc)
