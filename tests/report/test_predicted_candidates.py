"""The words below the candidates of a prediction: about ties only where some are tied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.report.predict.predict_document import predict_document
from counterpoint.report.terminal import plain_text
from predicted_candidates import ranked


@pytest.mark.parametrize(
    ("tied", "explained"),
    [((True, True, False), True), ((True, False, False), False)],
    ids=["two are tied", "none is"],
)
def test_ties_are_explained_where_there_are_any(
    tmp_path: Path, tied: tuple[bool, ...], explained: bool
) -> None:
    found = ranked(tmp_path, is_other_program=True)
    candidates = tuple(
        replace(it, tied=is_tied) for it, is_tied in zip(found.candidates, tied, strict=True)
    )
    text = plain_text(predict_document(replace(found, candidates=candidates), 10, ""))
    assert ("too small to prefer either" in text) is explained
    assert ("tied with the best" in text) is explained
