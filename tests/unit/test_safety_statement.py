"""The safety statement names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path


def test_every_claim_of_the_statement_names_a_test_that_is_there(repository: Path) -> None:
    text = (repository / "docs/safety.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|\n]*[a-z][^|\n]*\| (`tests/[^|\n]*) \|$", text, flags=re.MULTILINE)
    assert len(rows) >= 12
    for row in rows:
        for named in re.findall(r"`(tests/[^`]+\.py)`", row):
            source = repository / named
            assert source.is_file(), named
            assert re.search(r"^def test_", source.read_text(encoding="utf-8"), flags=re.MULTILINE), named
