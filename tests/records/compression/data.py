"""Inputs of codecs: nothing, little, text, bytes that no codec makes smaller; and the outputs of decoders."""

from __future__ import annotations

import random

from spark_kafkawire.records.compression.codec import Codec

CHANCE = random.Random(0)
TEXT = b" ".join(CHANCE.choices([b"offset", b"partition", b"leader", b"epoch"], k=60_000))
DATA = [b"", b"x", TEXT[:1000], TEXT[:65536], TEXT, CHANCE.randbytes(150_000)]
#: Text that repeats itself.
WORDS = b"some words, some words again, " * 3000


def decompressed(codec: Codec, payload: bytes, size_max: int = 10**6) -> bytes:
    """The content, in one piece."""
    return b"".join(codec.decompress(memoryview(payload), size_max))
