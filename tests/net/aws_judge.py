"""Signatures of AWS by AWS's own library, with the time of the signature that is judged."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


def signed_url_query(
    url: str,
    service: str,
    region: str,
    keys: tuple[str, str, str | None],
    parameters: Mapping[str, str],
    expires_s: int,
    stamp: str,
) -> dict[str, str]:
    """The query of a presigned GET at the time ``stamp``, 20261125T035000Z."""
    when = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    request = AWSRequest("GET", url, params=dict(parameters))
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=when):
        botocore.auth.SigV4QueryAuth(Credentials(*keys), service, region, expires=expires_s).add_auth(request)
    return dict(parse_qsl(urlsplit(request.url).query))


def signed_payload(message: Mapping[str, Any], key_id: str, secret: str) -> dict[str, str]:
    """The message of AWS_MSK_IAM that is right for the host, the time and the session token of this one."""
    region = message["x-amz-credential"].split("/")[2]
    query = signed_url_query(
        f"https://{message['host']}/",
        "kafka-cluster",
        region,
        (key_id, secret, message.get("x-amz-security-token")),
        {"Action": "kafka-cluster:Connect"},
        900,
        message["x-amz-date"],
    )
    more = {name: message[name] for name in ("version", "host", "user-agent")}
    return {**more, **{name.lower(): value for name, value in query.items()}}
