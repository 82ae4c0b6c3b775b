"""Bearer tokens for Amazon MSK: the URL of a signed request that is never sent.

Source: aws-msk-iam-auth, IAMOAuthBearerLoginCallbackHandler.
"""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from spark_kafkawire.net.logins.tokens.token import Token
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.version import VERSION

from .login import AwsLogin, region_of
from .signing import Keys, encoded_query, now_utc, signed_query

#: Seconds for which brokers take a signature: the longest that they allow.
EXPIRES_S: Final = 900
SERVICE: Final = "kafka-cluster"
ACTION: Final = {"Action": "kafka-cluster:Connect"}
AGENT: Final = f"spark-kafkawire/{VERSION}"


@dataclass(frozen=True, slots=True)
class MskToken:
    """An identity of AWS that signs a token for each connection."""

    login: AwsLogin

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return self.login.secrets

    def fetch(self, host: str, deadline: Deadline) -> Token:
        """A token of 900 seconds. It is not kept, because each connection signs one of its own."""
        region = region_of(host, self.login.profile)
        return Token(signed_token(region, self.login.keys(region, deadline), now_utc()))


def signed_token(region: str, keys: Keys, now: datetime.datetime) -> str:
    """The URL in the base 64 of URLs. The agent is added after the signature, as Amazon's own client does."""
    host = f"kafka.{region}.amazonaws.com"
    query = encoded_query(signed_query(host, SERVICE, region, keys, ACTION, EXPIRES_S, now))
    url = f"https://{host}/?{query}&User-Agent={quote(AGENT, safe='-_.~')}"
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
