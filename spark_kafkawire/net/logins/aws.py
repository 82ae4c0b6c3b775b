"""Logins to Amazon MSK: AWS_MSK_IAM, a signature of the broker's host name, and bearer tokens.

::

client {"version":"2020_10_22","host":"<broker>","user-agent":"…","action":"kafka-cluster:Connect", "x-amz-
algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"…","x-amz-date":"…", "x-amz-signedheaders":"host","x-amz-
expires":"900","x-amz-security-token":"…","x-amz-signature":"…"} broker {"version":"2020_10_22","request-
id":"…"}

A bearer token is the URL of a signed request that is never sent. AWS's own library (botocore) finds the
identity, and the role that it assumes.

Source: aws-msk-iam-auth, README and AWS4SignedPayloadGenerator.java.
"""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, counted, printable
from spark_kafkawire.kept import Kept
from spark_kafkawire.secrecy import Credentials, keep_secret
from spark_kafkawire.version import VERSION

from ..http import object_in
from ..transport import Deadline
from . import Mechanism, Tokens
from .tokens.token import Token, within

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Keys(Credentials):
    """Credentials of AWS: fixed ones of a user, or ones with a session token that expire. Secrets are in no
    repr."""

    access: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)


#: Seconds for which brokers take a signature: the longest that they allow.
EXPIRES_S: Final = 900
SERVICE: Final = "kafka-cluster"
ACTION: Final = {"Action": "kafka-cluster:Connect"}
AGENT: Final = f"spark-kafkawire/{VERSION}"


def _sign_query(host: str, region: str, keys: Keys, now: datetime.datetime) -> dict[str, str]:
    """The parameters of ``GET https://host/?…``, not encoded, with those of the signature."""
    stamp = now.astimezone(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = (stamp[:8], region, SERVICE, "aws4_request")
    query = {
        **ACTION,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": "/".join((keys.access, *scope)),
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(EXPIRES_S),
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": keys.session} if keys.session else {}),
    }
    request = f"GET\n/\n{encode_query(query)}\nhost:{host}\n\nhost\n{_NO_BODY}"
    text = "\n".join((_ALGORITHM, stamp, "/".join(scope), hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return {**query, "X-Amz-Signature": hmac.digest(key, text.encode(), "sha256").hex()}


def encode_query(query: Mapping[str, str]) -> str:
    """A query in the order and the spelling in which it is signed."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def now_utc() -> datetime.datetime:
    """The time of signatures."""
    return datetime.datetime.now(datetime.timezone.utc)


_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,12}){1,3}-[0-9]{1,2}")
_DOMAINS: Final = (".amazonaws.com", ".amazonaws.com.cn")
#: Codes of AWS's errors are shown, their prose is not.
_CODE: Final = re.compile(r"[A-Za-z]{1,64}")
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class AwsLogin(Credentials):
    """An identity of AWS, by the options of Amazon's login module. Plain data; secrets are in no repr.

    Without a profile, credentials come from the machine that connects; ``role_keys`` replace them.
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "spark-kafkawire"
    role_external_id: str | None = None
    role_keys: Keys | None = None
    sts_region: str | None = None

    def keys(self, region: str, deadline: Deadline) -> Keys:
        """Valid credentials; botocore renews them in time.

        Raises ``AuthenticationError`` (fatal) if there are none, ``TransportError`` (retriable).
        """
        session = _session_of(self.profile)
        keys = within(deadline, "AWS: botocore finds no credentials", lambda: self._asked(session, region))
        keep_secret(*keys.secrets)
        return keys

    def _asked(self, session: Any, region: str) -> Keys:
        key = self, self.sts_region or region
        try:
            result = _CREDENTIALS.get(key) or self._found(session, *key[1:])
            frozen = None if result is None else result.get_frozen_credentials()
        except Exception as error:
            failure = _error_of(error)
        else:
            if frozen is not None:
                _CREDENTIALS.keep(key, result)
                return Keys(frozen.access_key, frozen.secret_key, frozen.token or None)
            failure = AuthenticationError("botocore finds no credentials")
        named = "" if self.profile is None else f" of profile {printable(self.profile)}"
        # Outside of the handler: the text of botocore's error may have one of a server.
        raise type(failure)(
            f"AWS: {failure}{named} on the machine that connects; `aws sts get-caller-identity` there shows "
            "what is missing"
        )

    def _found(self, session: Any, region: str) -> Any:
        """Credentials that renew themselves, as AWS's own programs find them, single sign-on included."""
        from botocore.config import Config
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            Credentials,
            DeferredRefreshableCredentials,
        )

        keys = self.role_keys
        result = Credentials(keys.access, keys.secret, keys.session) if keys else session.get_credentials()
        if result is None or self.role_arn is None:
            return result
        # Connections retry as a whole.
        client = functools.partial(
            session.create_client, region_name=region, config=Config(retries={"total_max_attempts": 1})
        )
        external = {"ExternalId": self.role_external_id} if self.role_external_id else {}
        fetcher = AssumeRoleCredentialFetcher(
            client, result, self.role_arn, extra_args={"RoleSessionName": self.role_session_name, **external}
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


#: Credentials of botocore, which renew themselves, by login and region.
_CREDENTIALS: Final = Kept[tuple[AwsLogin, str], Any]()


def _session_of(profile: str | None) -> Any:
    """A session of botocore. Raises ``AuthenticationError`` (fatal) if it is not installed."""
    try:
        import botocore.session
    except ImportError:
        raise AuthenticationError(
            "AWS: credentials need AWS's own library: run pip install botocore, for the driver and the "
            "executors"
        ) from None
    return botocore.session.Session(profile=profile)


def _error_of(error: Exception) -> KafkaWireError:
    """The error for one of botocore, without its text."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, SSLError

    name = printable(type(error).__name__)
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        shown = f"HTTP status {status}" + (f" {code}" if _CODE.fullmatch(code) else "")
        if status >= _SERVER_ERROR:
            return ConnectFailed(f"AWS STS answers with {shown}")
        return AuthenticationError(
            f"AWS STS refuses the role: {shown}; check the credentials and the trust policy of the role,"
        )
    if isinstance(error, SSLError):
        return AuthenticationError("the certificate of AWS STS is not trusted; set AWS_CA_BUNDLE to a file")
    if isinstance(error, (ConnectionError, HTTPClientError)):
        return ConnectFailed(f"botocore finds no credentials ({name})")
    return AuthenticationError(f"botocore finds no credentials ({name})")


def region_of(host: str, profile: str | None) -> str:
    """The region of a broker, from its host name; else that of the environment or of the profile.

    Raises ``AuthenticationError`` (fatal) if nothing names it.
    """
    if host.lower().endswith(_DOMAINS):
        for label in reversed(host.lower().split(".")):
            if _REGION.fullmatch(label):
                return label
    given = os.environ.get("AWS_REGION") or _region_of_profile(profile)
    if not given or not _REGION.fullmatch(given):
        raise AuthenticationError(
            f"AWS: the host name {printable(host)} has no region; set the environment variable AWS_REGION on "
            "the driver and on the executors"
        )
    return given


def _region_of_profile(profile: str | None) -> str | None:
    """The region of AWS_DEFAULT_REGION, or of the profile."""
    session = _session_of(profile)
    try:
        region: str | None = session.get_config_variable("region")
    except Exception:  # its text may have lines of the file of profiles
        return None
    return region


@dataclass(frozen=True, slots=True)
class MskToken(Credentials):
    """An identity of AWS that signs a token for each connection."""

    login: AwsLogin

    def fetch(self, host: str, deadline: Deadline) -> Token:
        """A token of 900 seconds. It is not kept, because each connection signs one of its own."""
        region = region_of(host, self.login.profile)
        return Token(sign_token(region, self.login.keys(region, deadline), now_utc()))


def sign_token(region: str, keys: Keys, now: datetime.datetime) -> str:
    """The URL in the base 64 of URLs. The agent is added after the signature, as Amazon's own client does."""
    host = f"kafka.{region}.amazonaws.com"
    query = encode_query(_sign_query(host, region, keys, now))
    url = f"https://{host}/?{query}&User-Agent={quote(AGENT, safe='-_.~')}"
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


_NAME: Final = "AWS_MSK_IAM"
_VERSION: Final = "2020_10_22"


def _tokens(credentials: AwsLogin, host: str, deadline: Deadline) -> Tokens:
    region = region_of(host, credentials.profile)
    answer = yield payload(host, region, credentials.keys(region, deadline), now_utc())
    if "version" not in (object_in(answer) or {}):
        raise AuthenticationError(
            f"SASL {_NAME}: the broker does not accept the signature, in an answer of "
            f"{counted(len(answer), 'byte')}; check that its port takes IAM, and that the identity may do "
            f"{ACTION['Action']}"
        )


def payload(host: str, region: str, keys: Keys, now: datetime.datetime) -> bytes:
    """The client's message: the parameters of a signed request to the broker."""
    signature = {name.lower(): value for name, value in _sign_query(host, region, keys, now).items()}
    return json.dumps({"version": _VERSION, "host": host, "user-agent": AGENT, **signature}).encode()


AWS_MSK_IAM: Final = Mechanism(_NAME, "IAMLoginModule", _tokens)
