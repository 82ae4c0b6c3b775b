"""kio, a judge of modern messages, if this Python has it."""

from __future__ import annotations

import sys
from typing import Final

import pytest

HAS_KIO: Final = sys.version_info >= (3, 11)
NEEDS_KIO: Final = pytest.mark.skipif(not HAS_KIO, reason="kio needs Python 3.11")
