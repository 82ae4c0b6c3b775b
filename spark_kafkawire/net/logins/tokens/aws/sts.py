"""Temporary credentials from the security token service: AssumeRole and AssumeRoleWithWebIdentity.

Source: AWS Security Token Service, API reference.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode, urlsplit

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, printable
from spark_kafkawire.net.http import Answer, Url, ask
from spark_kafkawire.net.logins.tokens.endpoint import https_url
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import keep_secret

from .signing import Keys, encoded_query, now_utc, signed_query

#: The environment variable of another address, as in AWS's own programs.
ENDPOINT: Final = "AWS_ENDPOINT_URL_STS"
_VERSION: Final = "2011-06-15"
_EXPIRES_S: Final = 60
_OK: Final = 200
#: Error codes that are shown. The server's prose is not.
_CODES: Final = (
    "AccessDenied", "ExpiredToken", "ExpiredTokenException", "IDPCommunicationError", "IDPRejectedClaim",
    "IncompleteSignature", "InvalidClientTokenId", "InvalidIdentityToken", "MissingAuthenticationToken",
    "RegionDisabledException", "RequestExpired", "SignatureDoesNotMatch", "ValidationError",
)  # fmt: skip


def assume_role(
    keys: Keys,
    role_arn: str,
    session_name: str,
    external_id: str | None,
    region: str | None,
    tls: Tls,
    deadline: Deadline,
) -> Keys:
    """Credentials of a role, for those of another identity.

    Raises ``AuthenticationError`` (fatal) if the service refuses, ``TransportError`` (retriable).
    """
    parameters = {
        "Action": "AssumeRole",
        "Version": _VERSION,
        "RoleArn": role_arn,
        "RoleSessionName": session_name,
        **({"ExternalId": external_id} if external_id else {}),
    }
    url, signed_region = _address(region)
    query = signed_query(url.netloc, "sts", signed_region, keys, parameters, _EXPIRES_S, now_utc())
    return _asked(replace(url, target=f"/?{encoded_query(query)}"), "GET", {}, None, tls, deadline)


def assume_role_with_web_identity(
    token: str, role_arn: str, session_name: str, region: str | None, tls: Tls, deadline: Deadline
) -> Keys:
    """Credentials of a role, for a token of an identity provider such as a cluster of Kubernetes. Raises as
    ``assume_role`` does."""
    keep_secret(token)
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": _VERSION,
        "RoleArn": role_arn,
        "RoleSessionName": session_name,
        "WebIdentityToken": token,
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return _asked(_address(region)[0], "POST", headers, urlencode(form).encode(), tls, deadline)


def _address(region: str | None) -> tuple[Url, str]:
    """The address of the service and the region of its signatures."""
    default = f"https://sts.{region}.amazonaws.com/" if region else "https://sts.amazonaws.com/"
    if region and region.startswith("cn-"):
        default = f"https://sts.{region}.amazonaws.com.cn/"
    return https_url(os.environ.get(ENDPOINT) or default, ENDPOINT), region or "us-east-1"


def _asked(
    url: Url, method: str, headers: Mapping[str, str], body: bytes | None, tls: Tls, deadline: Deadline
) -> Keys:
    trust = replace(tls, adds_system_trust=True, checks_host_name=True)
    try:
        return keys_in(ask(url, method, headers, body, trust, deadline))
    except KafkaWireError as error:
        raise error.located(f"AWS STS {printable(urlsplit(f'//{url.netloc}').hostname)}") from error


def keys_in(answer: Answer) -> Keys:
    """The credentials of an answer. Raises ``AuthenticationError`` (fatal), ``ConnectFailed`` (retriable)."""
    if answer.is_temporary:
        raise ConnectFailed(f"the service answers with HTTP status {answer.status}; try again later")
    if answer.status != _OK:
        code = _element(answer.body, "Code")
        reason = f" {code}" if code in _CODES else ""
        raise AuthenticationError(
            f"the service refuses the role: HTTP status {answer.status}{reason}; check the credentials and "
            "the trust policy of the role"
        )
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    access, secret, session, expiration = (_element(answer.body, name) for name in names)
    if not access or not secret or not session:
        raise AuthenticationError("the response has no credentials; is a proxy between here and the service?")
    return Keys(access, secret, session, seconds_until(expiration))


def _element(body: bytes, name: str) -> str | None:
    match = re.search(rb"<%s>([!-;=?-~]{1,16384})</%s>" % (name.encode(), name.encode()), body)
    return match[1].decode("ascii") if match else None


def seconds_until(text: object) -> float:
    """Seconds from now to a time in ISO 8601; 0 for other texts and times that are over."""
    try:
        when = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        return max((when - now_utc()).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):  # TypeError: a time without a zone
        return 0.0
