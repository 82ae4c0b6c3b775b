"""What codecs are tried on: nothing, little, text, and what no codec makes smaller."""

from __future__ import annotations

import random

CHANCE = random.Random(0)
TEXT = b" ".join(CHANCE.choices([b"offset", b"partition", b"leader", b"epoch"], k=60_000))
DATA = [b"", b"x", TEXT[:1000], TEXT[:65536], TEXT, CHANCE.randbytes(150_000)]
