"""The table of logins: all mechanisms by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .aws_msk_iam import AWS_MSK_IAM
from .gssapi import GSSAPI
from .mechanism import Mechanism
from .oauthbearer import OAUTHBEARER
from .plain import PLAIN
from .scram import SCRAM_SHA_256, SCRAM_SHA_512

MECHANISMS: Final[Mapping[str, Mechanism]] = {
    each.name: each for each in (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI)
}
