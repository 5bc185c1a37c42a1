"""What benchmarks/published.py says of files and options that are none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
HEAD = "id,framework,model,seq,gpu,gpus,precision,dp,fsdp,tp,pp,cp,ep,global_batch,step_time_s,date"


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (None, (), "No such file or directory: "),
        ("a,b\n1,2\n", (), "has no column id, framework, model"),
        (
            f"{HEAD}\n7,Paxml,GPT-5B,2048,A100,many,bf16,1,8,1,1,,,8,4.5,2023\n",
            (),
            "row 7: invalid literal for int() with base 10: 'many'",
        ),
        (
            f"{HEAD}\n",
            ("--programs", "nowhere"),
            "--programs nowhere: no NAME.meta.json",
        ),
        (f"{HEAD}\n", ("--jobs", "0"), "--jobs 0: at least one"),
    ],
    ids=["no-file", "no-columns", "no-number", "no-programs", "no-jobs"],
)
def test_what_can_not_be_read_is_one_line(
    tmp_path: Path, content: str | None, options: tuple[str, ...], told: str
) -> None:
    rows = tmp_path / "rows.csv"
    if content is not None:
        rows.write_text(content)
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "published.py", rows, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert told in done.stderr.splitlines()[-1]
