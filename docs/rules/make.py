"""Writes docs/rules anew: `python docs/rules/make.py`. A test holds the files to the rules."""

from __future__ import annotations

from pathlib import Path

from counterpoint.flags.rules import RULES
from counterpoint.report.rules_pages import rules_pages

HERE = Path(__file__).parent

for old in HERE.glob("*.md"):
    old.unlink()
for name, text in rules_pages(RULES).items():
    (HERE / name).write_text(text, encoding="utf-8")
