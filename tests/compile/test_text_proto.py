"""Fields are left out of a text proto whole, and nothing else is."""

from __future__ import annotations

import pytest

from counterpoint.compile.text_proto import without_field

TEXT = """\
outer {
  name: "x"
  name_too: 1
  rates {
    key: 1
    value { ops: 2 }
  }
  last: 3
}
rates: 5
"""


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("name", TEXT.replace('  name: "x"\n', "")),
        ("last", TEXT.replace("  last: 3\n", "")),
        (
            "rates",
            'outer {\n  name: "x"\n  name_too: 1\n  last: 3\n}\n',
        ),
        ("value", TEXT.replace("    value { ops: 2 }\n", "")),
        ("absent", TEXT),
    ],
)
def test_a_field_is_left_out_whole(field: str, left: str) -> None:
    assert without_field(TEXT, field) == left
