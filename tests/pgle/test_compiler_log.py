"""What XLA's log proves of a profile. The logs in data/ are the compiler's own (make_logs.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.pgle.compiler_log import VERBOSE_LOG, ProfileUse, read_compiler_log
from counterpoint.pgle.complaints import ComplaintKind

DATA = Path(__file__).parent / "data"
FLAGS: dict[str, str] = {}  # known, and none set


def log(name: str, level: str = "loud") -> str:
    return (DATA / f"{name}.{level}.log").read_text()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("full", ProfileUse.USED),
        ("half", ProfileUse.USED),
        ("from_text", ProfileUse.USED),
        ("scheduler_off", ProfileUse.USED),
        ("unchecked", ProfileUse.USED),
        ("none", ProfileUse.NOT_USED),
        ("foreign", ProfileUse.NOT_USED),
        ("empty", ProfileUse.NOT_USED),
        ("corrupt", ProfileUse.NOT_USED),
        ("text_in_pb", ProfileUse.NOT_USED),
        ("absent", ProfileUse.NOT_USED),
        ("wrong_ending", ProfileUse.NOT_USED),
        ("directory", ProfileUse.NOT_USED),
        ("error", ProfileUse.FAILED),
    ],
)
def test_a_loud_log_always_tells(name: str, use: ProfileUse) -> None:
    found = read_compiler_log(log(name))
    assert found.use is use
    assert not found.needs


@pytest.mark.parametrize("name", ["foreign", "empty"])
def test_found_profile_is_no_proof(name: str) -> None:
    assert "Found profile" in log(name)
    module = read_compiler_log(log(name)).of("jit_loss")
    assert module is not None
    assert module.use is ProfileUse.NOT_USED
    assert (module.found, module.missing) == (0, 15)
    assert len(module.missing_names) == 15


def test_counts_names_source_fallback_and_fingerprint() -> None:
    module = read_compiler_log(log("half")).of("jit_loss")
    assert module is not None
    assert (module.found, module.missing) == (8, 7)
    assert "all-to-all-start" in module.missing_names
    assert {"all-gather-start", "custom-call.6"} <= module.looked_up
    assert not module.looked_up & set(module.missing_names)
    assert module.source == "/profiles/half.pbtxt"
    assert module.fallback == "SolLatencyEstimator"
    assert module.fingerprint == "6f60f531408c615103d32baefca32d1b"


def test_costs_handed_over_as_an_option_are_told_from_a_file() -> None:
    assert read_compiler_log(log("from_text")).sources == ("fdo_profile (text)",)


@pytest.mark.parametrize(
    ("name", "trouble", "words"),
    [
        ("absent", ComplaintKind.MISSING_FILE, "/profiles/absent.pbtxt"),
        ("corrupt", ComplaintKind.UNREADABLE, "/profiles/corrupt.pbtxt"),
        ("text_in_pb", ComplaintKind.UNREADABLE, "/profiles/text.pb"),
        ("directory", ComplaintKind.MISSING_FILE, "6f60f531408c615103d32baefca32d1b.pb"),
        ("error", ComplaintKind.DISCARDED, "7 missing"),
        ("scheduler_off", ComplaintKind.SCHEDULER_ANYWAY, "anyway"),
    ],
)
def test_complaints_say_what_to_do(name: str, trouble: ComplaintKind, words: str) -> None:
    found = [it for it in read_compiler_log(log(name)).complaints if it.kind is trouble]
    assert any(words in it.text for it in found)
    assert all(it.next for it in found)


@pytest.mark.parametrize("name", ["full", "none", "wrong_ending", "unchecked"])
def test_at_the_usual_level_silence_proves_nothing(name: str) -> None:
    found = read_compiler_log(log(name, "usual"), FLAGS)
    assert found.use is ProfileUse.UNKNOWN
    assert found.needs == VERBOSE_LOG


def test_at_the_usual_level_missing_costs_are_told_all_the_same() -> None:
    assert read_compiler_log(log("half", "usual")).use is ProfileUse.USED
    assert read_compiler_log(log("foreign", "usual")).use is ProfileUse.NOT_USED


def test_an_informing_log_proves_full_cover_only_where_xla_counts() -> None:
    text = log("full", "informing")
    unknown = read_compiler_log(text)
    assert unknown.use is ProfileUse.UNKNOWN
    assert unknown.needs == VERBOSE_LOG
    assert read_compiler_log(text, FLAGS).use is ProfileUse.USED
    off = {"xla_gpu_pgle_accuracy_checker": "PGLE_STRICTNESS_LEVEL_OFF"}
    assert read_compiler_log(text, off).use is ProfileUse.UNKNOWN
    unchecked = {"xla_disable_hlo_passes": "a, pgle-accuracy-checker"}
    assert read_compiler_log(text, unchecked).use is ProfileUse.UNKNOWN


@pytest.mark.parametrize("name", ["none", "wrong_ending"])
def test_an_informing_log_that_mentions_no_profile_says_that_none_was_read(name: str) -> None:
    found = read_compiler_log(log(name, "informing"))
    assert found.use is ProfileUse.NOT_USED
    assert ".pbtxt" in found.reason


def test_without_the_scheduler_nothing_is_used() -> None:
    found = read_compiler_log(log("full"), {"xla_disable_hlo_passes": "latency-hiding-scheduler"})
    assert found.use is ProfileUse.NOT_USED


def test_an_empty_log_asks_for_a_louder_one() -> None:
    found = read_compiler_log("")
    assert (found.use, found.needs) == (ProfileUse.UNKNOWN, VERBOSE_LOG)


def test_marks_of_launchers_and_the_older_format_are_read() -> None:
    marked = "".join(f"[rank 3] 12: {line}\n" for line in log("half").splitlines())
    assert read_compiler_log(marked).of("jit_loss") == read_compiler_log(log("half")).of("jit_loss")
    older = (
        "2025-04-15 16:33:04.1: I xla/service/gpu/gpu_hlo_schedule.cc:377] Using PGLE profile from "
        "/p.pbtxt\n2025-04-15 16:33:04.2: I xla/service/gpu/gpu_hlo_schedule.cc:522] Found profile,"
        " using profile guided latency estimator\n2025-04-15 16:33:04.3: W xla/service/"
        "profile_guided_latency_estimator.cc:192] Found 3 instructions from the profile.\n"
    )
    found = read_compiler_log(older)
    assert (found.use, found.sources) == (ProfileUse.USED, ("/p.pbtxt",))


def test_modules_compiled_by_several_threads_keep_their_lines() -> None:
    first = log("half").replace("jit_loss", "jit_first").splitlines()
    second = [_other_thread(line) for line in log("foreign").splitlines()]
    mixed = [line for pair in zip(first, second, strict=False) for line in pair]
    mixed += first[len(second) :] + second[len(first) :]
    found = read_compiler_log("\n".join(mixed))
    one, other = found.of("jit_first"), found.of("jit_loss")
    assert one is not None
    assert other is not None
    assert (one.found, other.found) == (8, 0)
    assert found.use is ProfileUse.USED


def _other_thread(line: str) -> str:
    parts = line.split(" ", 3)
    return line if len(parts) < 4 else line.replace(line.split()[2], "99999", 1)


def test_of_a_module_compiled_twice_the_compile_with_the_profile_counts() -> None:
    found = read_compiler_log(log("none") + log("full"))
    module = found.of("jit_loss")
    assert len(found.modules) == 2
    assert module is not None
    assert module.use is ProfileUse.USED


JAX_LINES = {
    ComplaintKind.EMPTY_TRACE: "RuntimeWarning: PGLE collected an empty trace, may be due to"
    " contention "
    "with another tool that subscribes to CUPTI",
    ComplaintKind.CACHE_MISS: "UserWarning: PERSISTENT CACHE MISS for PGLE-optimized jit_step"
    " despite "
    "non-PGLE hit; it may not have been executed enough times when the cache was populated",
    ComplaintKind.CACHE_WRITE: "UserWarning: PERSISTENT CACHE WRITE with key jit_f-0a1b, this is "
    "unexpected because JAX_COMPILATION_CACHE_EXPECT_PGLE is set.",
    ComplaintKind.CONTENTION: "E0000 cupti_error_manager.cc:1]"
    " CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_"
    "SUPPORTED",
}


@pytest.mark.parametrize("trouble", JAX_LINES)
def test_warnings_of_jax_are_complaints(trouble: ComplaintKind) -> None:
    (found,) = read_compiler_log(JAX_LINES[trouble]).complaints
    assert found.kind is trouble
    assert found.next


def test_jax_words_its_warnings_as_they_are_read_here() -> None:
    """Held against the installed JAX, so that a new wording is noticed."""
    compilation_cache = pytest.importorskip("jax._src.compilation_cache")
    from jax._src import compiler, profiler

    source = "".join(
        Path(str(it.__file__)).read_text() for it in (compilation_cache, compiler, profiler)
    )
    for words in (
        "PGLE collected an empty trace",
        "PERSISTENT CACHE MISS for PGLE-optimized",
        "loaded from compilation cache",
        "PERSISTENT CACHE WRITE with key",
    ):
        assert words in source


def test_an_executable_from_the_cache_is_use() -> None:
    found = read_compiler_log("INFO: PGLE-optimized jit_step loaded from compilation cache")
    assert (found.use, found.from_cache) == (ProfileUse.USED, ("jit_step",))
