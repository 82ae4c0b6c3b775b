"""The text of files that a job remembers things in: what was sealed, or an error, never something else."""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.jobs.state.sealed import BrokenSeal, seal, unseal

from ..damage import assert_noticed, damaged

KIND: Final = "ingest 2"
CONTENT: Final[dict[str, Any]] = {
    "batch": 7,
    "positions": {"größe": {"0-1": 123}},
    "schema": None,
    "gone": [],
}


def test_what_was_sealed_is_read_back() -> None:
    found = unseal(seal(KIND, CONTENT), KIND)
    assert {key: found[key] for key in CONTENT} == CONTENT


def test_a_text_that_was_cut_or_in_which_a_bit_has_changed_is_never_another_one() -> None:
    wanted = unseal(seal(KIND, CONTENT), KIND)
    said = []
    texts = [*damaged(seal(KIND, CONTENT).encode(), all_bits=True)]
    for each in texts:
        try:
            assert unseal(each.decode("utf-8", "surrogateescape"), KIND) == wanted
        except BrokenSeal as error:
            said.append(str(error))
    assert_noticed(said, len(texts))
