"""Digests: within their size, of whole lines, and with a basis for every figure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from healthy import healthy
from hypothesis import given
from hypothesis import strategies as st

import timelines
import tune_conclusions
from command_line import in_process
from counterpoint.core import Range, UsageError
from counterpoint.diagnose.compare.comparison import compare
from counterpoint.report.digest import BUDGET, LEAST, LOSS, Digest, DigestLine
from counterpoint.report.explain.compare_digest import compare_digest
from counterpoint.report.explain.explain_digest import explain_digest
from counterpoint.report.predict.predict_digest import predict_digest
from counterpoint.report.summary import summarize_study
from counterpoint.report.tune.tune_digest import tune_digest
from counterpoint.tune.conclusion.conclusion import ArmRow, Conclusion
from counterpoint.tune.statistics import ArmVerdict
from golden_files import Golden, cases
from predicted_candidates import ranked
from real_profiles import explained_of

FIGURE = re.compile(r"\d (ms|s|GiB|MiB|node hours)\b|\d%")
BASIS = re.compile(r"\[[^]]*(measured|predicted|rule of thumb|bounds)[^]]*\]")
WORDS = (
    "note: ",
    "  remedy: ",
    "next: ",
    "warning: ",
    "winner: ",
    "left out",
    "range: ",
    "priced by: ",
)
"""Sentences of other rooms, and shares of what is priced, which have their basis in words."""
MISSING = re.compile(r"left out: (.*); a larger --budget or --json has more")
TRACES = (
    "jax_conv_mi300x_8gpu.xplane.pb",
    "jax_gemm_mi300x.xplane.pb",
    "jax_inference_v6e_4tpu.xplane.pb",
    "pax_fsdp4_4proc_proc*.zip",
    "pytorch_h100_2gpu.nsys.sqlite",
    "vllm_qwen3_2tpu.trace.json.gz",
)
CONCLUSIONS: tuple[Callable[[], Conclusion], ...] = (
    tune_conclusions.found,
    tune_conclusions.nothing,
    tune_conclusions.foreseen,
    tune_conclusions.unfinished,
)


def check(digest: Digest, title: str) -> None:
    """What holds for every digest."""
    for budget in (LEAST, 700, BUDGET, 4000, 1_000_000):
        text = digest.text(budget)
        assert len(text) <= budget, (title, text)
        assert text == digest.text(budget)
        check_lines(text.splitlines())
    whole = digest.text(1_000_000)
    assert not any(map(MISSING.fullmatch, whole.splitlines()))
    assert len(whole.splitlines()) == len(digest.lines) + 1
    few = digest.text(LEAST).splitlines()
    left = sum(1 for line in few if MISSING.fullmatch(line) is None)
    counted = [MISSING.fullmatch(line) for line in few]
    missing = sum(
        int(part.split()[0])
        for match in counted
        if match is not None
        for part in match[1].split(", ")
    )
    assert left + missing == len(digest.lines) + 1


def check_lines(lines: list[str]) -> None:
    """Every line with a figure names its basis."""
    for line in lines:
        if FIGURE.search(line) and not line.startswith(WORDS):
            assert BASIS.search(line) or line.startswith("B against A"), line


@pytest.mark.system
@pytest.mark.parametrize("name", TRACES)
def test_real_profiles(shared: Path, name: str) -> None:
    explanation = explained_of(shared / "data/traces" / name)
    digest = explain_digest(explanation, paths=(name,))
    check(digest, name)
    text = digest.text()
    assert text.startswith(f"explain {name}: {explanation.device_count} x ")
    if explanation.steps.median_ms is None:
        assert "\nstep: unknown, " in text
    else:
        assert "\nstep [measured]: " in text
    losses = [it for it in explanation.findings if it.basis and hasattr(it.saves_ms, "low")]
    if losses:
        assert f"\n{losses[0].code} [{losses[0].basis}]: could save " in text
    assert text.splitlines()[-1].startswith("next: counterpoint ")


def test_two_profiles_compared(golden: Golden) -> None:
    a, b = timelines.two_devices(), healthy(with_hlo=False)
    same = compare_digest(compare(a, timelines.two_devices_without_hlo()))
    other = compare_digest(compare(a, b))
    texts = {"the same step": same.text(4000), "another program": other.text(4000)}
    for name, digest in zip(texts, (same, other), strict=True):
        check(digest, name)
    same_ms = next(it for it in texts["the same step"].splitlines() if it.startswith("step: "))
    assert same_ms.count("11.00 ms") == 2
    golden("compare_digest.txt", cases(texts))


def test_a_step_of_the_profile_is_told_from_those_of_the_verdict() -> None:
    found = compare(timelines.two_devices(), timelines.two_devices_without_hlo())
    assert "\nstep [measured]: A " in compare_digest(found).text()
    assert found.a.times is not None
    times = replace(found.a.times, source="log")
    logged = replace(found, a=replace(found.a, times=times))
    text = compare_digest(logged).text()
    assert "\nstep [measured]: A " not in text
    assert "\nstep of the profile" in text


@pytest.mark.system
def test_losses_of_a_prediction_come_before_its_details(tmp_path: Path) -> None:
    program = tmp_path / "step.hlo.txt"
    program.write_text(timelines.HLO)
    words = ("predict", program, "--target", "2xH100", "--as", "digest", "--budget")
    for budget in range(LEAST, 1500, 100):
        lines = in_process(*words, budget).stdout.splitlines()
        assert lines[-1].startswith("next: counterpoint predict ")
        loss = any(line.startswith("STEP504 ") for line in lines)
        details = ("op ", "collective ", "phases ", "MFU ", "  remedy: ")
        assert loss or not any(line.startswith(details) for line in lines), lines


@pytest.mark.parametrize("make", CONCLUSIONS, ids=lambda it: it.__name__)
def test_studies(make: Callable[[], Conclusion]) -> None:
    conclusion = make()
    digest = tune_digest(conclusion, "llama", "counterpoint tune show studies/llama")
    check(digest, conclusion.sentence)
    text = digest.text()
    assert text.startswith(f"study llama: {conclusion.state}\nverdict [{conclusion.basis}")
    assert ("\nwinner: " in text) == (conclusion.winner is not None)


def test_a_prediction(tmp_path: Path, golden: Golden) -> None:
    program = tmp_path / "step.hlo.txt"
    program.write_text(timelines.HLO)
    words = ("predict", program.name, "--target", "2xH100", "--as", "digest")
    done = in_process(*words, "--budget", 5000, cwd=tmp_path)
    assert done.returncode == 0
    check_lines(done.stdout.splitlines())
    assert "\nstep [predicted, " in done.stdout
    small = in_process(*words, "--what-if", "nic=2x", cwd=tmp_path)
    assert len(small.stdout) <= BUDGET
    assert "\nif nic=2x [predicted, " in small.stdout
    assert "left out: " in small.stdout
    texts = {"all": done.stdout, "what a small budget leaves": small.stdout}
    golden("predict_digest.txt", cases(texts))


UNCOUNTED = """HloModule step, is_scheduled=true

turn {
  t = (f32[1048576], pred[]) parameter(0)
  x = f32[1048576] get-tuple-element(t), index=0
  go = pred[] get-tuple-element(t), index=1
  twice = f32[1048576] add(x, x)
  ROOT next = (f32[1048576], pred[]) tuple(twice, go)
}

goes_on {
  s = (f32[1048576], pred[]) parameter(0)
  ROOT more = pred[] get-tuple-element(s), index=1
}

ENTRY main {
  p = f32[1048576] parameter(0)
  q = pred[] parameter(1)
  start = (f32[1048576], pred[]) tuple(p, q)
  ROOT loop = (f32[1048576], pred[]) while(start), condition=goes_on, body=turn
}
"""


def test_the_best_candidate_comes_before_what_its_range_rests_on(tmp_path: Path) -> None:
    digest = predict_digest(ranked(tmp_path, is_other_program=True), "n")
    rank = {line.text.partition(" [")[0]: line.rank for line in digest.lines}
    candidates = [rank for text, rank in rank.items() if text.startswith("candidate ")]
    (basis,) = (rank for text, rank in rank.items() if text.startswith("priced by: "))
    assert candidates[0] < basis < candidates[1]


def test_the_step_of_a_loop_that_nobody_counts_is_a_lower_bound(
    tmp_path: Path, golden: Golden
) -> None:
    program = tmp_path / "step.hlo.txt"
    program.write_text(UNCOUNTED)
    words = ("predict", program.name, "--target", "1xH100")
    done = in_process(*words, "--as", "digest", cwd=tmp_path)
    step = next(it for it in done.stdout.splitlines() if it.startswith("step [predicted"))
    assert "ms or more, 1 loop counted once" in step
    said = in_process(*words, cwd=tmp_path).stdout
    assert "or more, 1 loop counted once" in " ".join(said.splitlines()[:2])
    texts = {"digest": done.stdout, "report": said.partition("\nRange")[0]}
    golden("predict_uncounted_loop.txt", cases(texts))
    told = json.loads(in_process(*words, "--json", cwd=tmp_path).stdout)
    assert told["prediction"]["lower_bound"] is True


NAMES = st.text(min_size=1, max_size=60) | st.text("a", min_size=61, max_size=200)


@given(
    lines=st.lists(
        st.builds(DigestLine, text=NAMES, rank=st.integers(1, 9), kind=st.just("op")), max_size=12
    ),
    budget=st.integers(LEAST, 1000),
)
def test_any_lines_are_kept_whole_or_counted(lines: list[DigestLine], budget: int) -> None:
    text = Digest((DigestLine("head", 0), *lines), "counterpoint x").text(budget)
    assert len(text) <= budget
    assert text.endswith("\nnext: counterpoint x\n")
    shown = [line for line in text.splitlines() if not line.startswith("left out: ")]
    everything = Digest((DigestLine("head", 0), *lines), "counterpoint x").text(10**9).splitlines()
    rest = iter(everything)
    assert all(line in rest for line in shown)  # in order, and none is cut


def test_the_next_command_has_its_room_first() -> None:
    kinds = ("op", "note", "collective", "remedy text", "other finding", "setting", "breakdown")
    heads = [DigestLine("h" * 99, 0) for _ in range(5)]
    lines = (*heads, *(DigestLine("x" * 90, 1, kind) for kind in kinds))
    text = Digest(lines, f"counterpoint explain {'run' * 30}").text(LEAST)
    assert len(text) <= LEAST
    assert text.startswith("h" * 99)
    assert text.splitlines()[-1].startswith("next: counterpoint explain run")
    assert "\nleft out: 9 lines; " in text


def test_no_detail_is_kept_where_a_loss_has_no_room() -> None:
    losses = [DigestLine(f"STEP{at}: {'x' * 200}", 3 + at, LOSS) for at in range(3)]
    lines = (*losses, DigestLine("collective", 25, "collective"))
    text = Digest(lines, "counterpoint x").text(LEAST)
    assert text.startswith("STEP0: ")
    assert "STEP2: " not in text
    assert "\ncollective" not in text
    assert "\nleft out: 2 lines; " in text


def test_arms_have_a_basis_only_where_something_is_known(golden: Golden) -> None:
    rows = (
        ArmRow(arm=tune_conclusions.arm("cublas"), status="worth a trial"),
        ArmRow(arm=tune_conclusions.arm("fsdp"), status="not looked at", why="too late"),
        ArmRow(
            arm=tune_conclusions.arm("small", says=tune_conclusions.predicted(-0.079, -0.1, 0)),
            status="predicted",
        ),
    )
    foreseen = tune_conclusions.foreseen()
    base = replace(foreseen.rows[1], trials=0, median_s=None)
    conclusion = replace(foreseen, rows=(base, *rows))
    text = tune_digest(conclusion, "llama", "counterpoint x").text(4000)
    assert "\narm base [predicted]: " in text
    assert "\narm cublas: " in text
    assert "\narm fsdp: " in text
    assert text.count("7.9%") == 1
    golden("tune_digest_of_unknown_arms.txt", text)
    (arms,) = (it for it in summarize_study(conclusion, "llama").figures if it.name == "arms")
    assert (arms.value, arms.basis) == (3, "predicted")


def test_a_run_that_decided_nothing_is_not_called_slower_without_its_doubt(golden: Golden) -> None:
    reach, verdict = Range(-0.8, 0.29), ArmVerdict.OPEN
    rows = (
        ArmRow(
            arm=tune_conclusions.arm("loud"),
            status="not decided",
            trials=2,
            median_s=0.16,
            raced=tune_conclusions.estimate("loud", -0.238, reach, verdict, 2),
        ),
        ArmRow(arm=tune_conclusions.arm("never"), status="no budget", why="7 trials are needed"),
        ArmRow(arm=tune_conclusions.arm("later"), status="not tried"),
    )
    conclusion = replace(tune_conclusions.nothing(), rows=rows)
    text = tune_digest(conclusion, "st1", "counterpoint x").text(4000)
    assert "which may be noise" in next(it for it in text.splitlines() if "23.8%" in it)
    golden("tune_digest_undecided.txt", text)


def test_a_budget_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 500"):
        Digest((), "counterpoint x").text(100)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "900"), "--budget is the size of a digest"),
        (("--as", "digest", "--json"), "exclude each other"),
        (("--as", "digest", "--budget", "20"), "at least 500"),
    ],
)
def test_options_that_do_not_fit_together(words: tuple[str, ...], said: str) -> None:
    done = in_process("explain", "nothing.xplane.pb", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_markdown_shows_names_as_they_are() -> None:
    line = DigestLine("op <script>|`*_a_*`\nx [measured]: 1.0 ms", 0)
    text = Digest((line,), "counterpoint explain 'a b'").markdown("explain `x`")
    assert text.splitlines()[0] == "### explain \\`x\\`"
    assert "<script>" not in text
    assert r"\nx \[measured\]: 1.0 ms" in text.replace("\\\\n", r"\n")
