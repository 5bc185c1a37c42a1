"""What benchmarks/published.py says of files and options that are none."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from golden_files import Golden

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published.py"
HEAD = "id,framework,model,seq,gpu,gpus,precision,dp,fsdp,tp,pp,cp,ep,global_batch,step_time_s,date"
CASES = (
    "absent.csv",
    "no-columns.csv",
    "no-number.csv",
    "rows.csv --programs nowhere",
    "rows.csv --jobs 0",
)


def test_what_can_not_be_read_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    (tmp_path / "no-columns.csv").write_text("a,b\n1,2\n")
    bad = f"{HEAD}\n7,Paxml,GPT-5B,2048,A100,many,bf16,1,8,1,1,,,8,4.5,2023\n"
    (tmp_path / "no-number.csv").write_text(bad)
    (tmp_path / "rows.csv").write_text(f"{HEAD}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(PUBLISHED.parent)
    told: list[str] = []
    for case in CASES:
        monkeypatch.setattr("sys.argv", [str(PUBLISHED), *case.split()])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(PUBLISHED), run_name="__main__")
        assert ended.value.code not in (0, None)
        said = ended.value.code if isinstance(ended.value.code, str) else capsys.readouterr().err
        told.append(f"## {case}\n{said.splitlines()[-1]}\n")
    golden("published_refused.txt", "\n".join(told))
