"""AWS_MSK_IAM: the login of Amazon MSK, a signature of the broker's host name.

::

    client  {"version":"2020_10_22","host":"<broker>","user-agent":"…","action":"kafka-cluster:Connect",
             "x-amz-algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"…","x-amz-date":"…",
             "x-amz-signedheaders":"host","x-amz-expires":"900","x-amz-security-token":"…","x-amz-signature":"…"}
    broker  {"version":"2020_10_22","request-id":"…"}

Source: aws-msk-iam-auth, README and AWS4SignedPayloadGenerator.java.
"""

from __future__ import annotations

import datetime
import json
from typing import Final

from spark_kafkawire.errors import AuthenticationError, counted

from ..transport import Deadline
from .mechanism import Mechanism, Tokens
from .tokens.aws.login import AwsLogin, region_of
from .tokens.aws.msk import ACTION, AGENT, EXPIRES_S, SERVICE
from .tokens.aws.signing import Keys, now_utc, signed_query
from .tokens.endpoint import object_in

_NAME: Final = "AWS_MSK_IAM"
_VERSION: Final = "2020_10_22"


def _tokens(credentials: AwsLogin, host: str, deadline: Deadline) -> Tokens:
    region = region_of(host, credentials.profile)
    answer = yield payload(host, region, credentials.keys(region, deadline), now_utc())
    if "version" not in object_in(answer):
        raise AuthenticationError(
            f"SASL {_NAME}: the broker does not accept the signature, in an answer of "
            f"{counted(len(answer), 'byte')}; check that its port takes IAM, and that the identity may do "
            f"{ACTION['Action']}"
        )


def payload(host: str, region: str, keys: Keys, now: datetime.datetime) -> bytes:
    """The client's message: the parameters of a signed request to the broker."""
    query = signed_query(host, SERVICE, region, keys, ACTION, EXPIRES_S, now)
    signature = {name.lower(): value for name, value in query.items()}
    return json.dumps({"version": _VERSION, "host": host, "user-agent": AGENT, **signature}).encode()


AWS_MSK_IAM: Final = Mechanism(_NAME, "IAMLoginModule", _tokens)
