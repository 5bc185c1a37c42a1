"""What XLA and JAX of each release do, observed: src/counterpoint/flags/catalogue/observed.tsv.

    python tools/observe_releases.py ENVIRONMENTS [RELEASE ...] [--only NAME]

Each release is installed into ENVIRONMENTS/RELEASE, unless it is there, and compiles the programs
of release_programs.py for absent GPUs: no GPU, one core, two minutes a release. An observation is a
program, its options, and a line whose presence in XLA's log or dump decides. Releases that are not
named keep what the file says of them, so a new release is added with its own number alone.

A probe that must compile and does not ends the script: what it would have shown is not known.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from counterpoint.compile.text_proto import without_field
from counterpoint.compile.toolkit import write_toolkit
from counterpoint.flags.observed import (
    OBSERVED,
    observations_text,
    observed_of,
    observed_releases,
)
from counterpoint.flags.release_number import version_number
from counterpoint.hardware.chip import find_gpu
from counterpoint.hardware.target_config import target_config

PROGRAMS: Final = Path(__file__).with_name("release_programs.py")
LHS: Final = "xla_gpu_enable_latency_hiding_scheduler"
SOL: Final = "xla_gpu_enable_analytical_sol_latency_estimator"
PROFILE: Final = "xla_gpu_pgle_profile_file_or_directory_path"
STRICT: Final = "xla_gpu_pgle_accuracy_checker"
SCHEDULED: Final = r"Statistics before scheduling"
ESTIMATOR: Final = "0.7.0"
"""The first release whose estimator can start the scheduler."""
READ: Final = r"Using PGLE profile from"
VERBOSE: Final = (
    "gpu_hlo_schedule=5,latency_hiding_scheduler=2,profile_guided_latency_estimator=5,"
    "sol_latency_estimator=2"
)
COSTS: Final = {
    "costs": 'costs { name: "all-reduce-start" cost_us: 300 }\n',
    "empty": "",
}
_UNKNOWN_FIELD: Final = re.compile(r'has no field named "(\w+)"')


@dataclass(frozen=True)
class Probe:
    """A compile, and the pattern that decides. `absent`: it holds where the pattern is not found.

    `profile` is a key of COSTS, or "missing" for a path that does not exist. `where`: "log", the
    scheduled "hlo", the module's "config", the options that differ ("debug_options"), the "error"
    of a compile that may fail, JAX's own "source", or "memory" (then the pattern is not used).
    """

    what: str
    program: str = "overlap"
    pattern: str = SCHEDULED
    where: str = "log"
    absent: bool = False
    chip: str = "H100"
    topology: str = "1x1x8"
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    flags: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    profile: str = ""
    quiet: bool = False  # with no variable of the log set
    since: str = ""  # older releases lack the operation, or the estimator that it may stop


PROBES: Final = {
    "scheduler-on-request": Probe(
        f"an H100 with {LHS}=true: the latency-hiding scheduler runs", options={LHS: "True"}
    ),
    "scheduler-by-default": Probe(
        "an H100 with no flags: the latency-hiding scheduler runs",
    ),
    "scheduler-by-estimator": Probe(
        f"an H100 with {SOL}=true: the latency-hiding scheduler runs", options={SOL: "True"}
    ),
    "scheduler-despite-false": Probe(
        f"an H100 with {LHS}=false: the latency-hiding scheduler runs", options={LHS: "False"}
    ),
    "scheduler-without-estimator": Probe(
        f"an H100 with {SOL}=false: the latency-hiding scheduler runs", options={SOL: "False"}
    ),
    "scheduler-on-ampere": Probe(
        "an A100 with no flags: the latency-hiding scheduler runs", chip="A100-80GB"
    ),
    "ragged-all-to-all-stops-scheduler": Probe(
        f"an H100 with {SOL}=true, a ragged-all-to-all in the module: the scheduler does not run",
        options={SOL: "True"},
        arguments={"beside": "ragged"},
        absent=True,
        since=ESTIMATOR,
    ),
    "broadcast-stops-scheduler": Probe(
        f"an H100 with {SOL}=true, a collective-broadcast in the module: the scheduler does not"
        " run",
        options={SOL: "True"},
        arguments={"beside": "broadcast"},
        absent=True,
        since=ESTIMATOR,
    ),
    "host-computation-stops-scheduler": Probe(
        f"an H100 with {SOL}=true, a computation on the host: the scheduler does not run",
        options={SOL: "True"},
        program="on host",
        absent=True,
        since=ESTIMATOR,
    ),
    "permute-stops-scheduler": Probe(
        f"an H100 with {SOL}=true, a collective-permute in the module: the scheduler does not run",
        options={SOL: "True"},
        arguments={"beside": "permute"},
        absent=True,
        since=ESTIMATOR,
    ),
    "send-recv-stops-scheduler": Probe(
        f"an H100 with {SOL}=true, a permute in a loop made into send and recv: the scheduler does"
        " not run",
        program="ring",
        options={
            SOL: "True",
            "xla_gpu_enable_pipelined_p2p": "True",
            "xla_gpu_collective_permute_decomposer_threshold": "0",
        },
        absent=True,
        since=ESTIMATOR,
    ),
    "profile-starts-scheduler": Probe(
        "an A100 with a PGLE profile and no other flag: the scheduler runs",
        chip="A100-80GB",
        profile="costs",
    ),
    "profile-read-despite-false": Probe(
        f"an H100 with a PGLE profile and {LHS}=false: XLA reads the profile",
        pattern=READ,
        options={LHS: "False"},
        profile="costs",
    ),
    "missing-profile-is-logged": Probe(
        "an H100 with a PGLE profile that does not exist: an error line, with no variable set",
        pattern=r"\bE(\d{4}| ).*PGLE profile file does not exist",
        profile="missing",
        quiet=True,
    ),
    "empty-profile-keeps-estimator": Probe(
        "an H100 with an empty PGLE profile: missing costs come from the estimator that is used"
        " without a profile",
        pattern=r"PGLE fallback: using SolLatencyEstimator",
        profile="empty",
    ),
    "strict-profile-needs-overlap": Probe(
        f"an H100 with {STRICT}=PGLE_STRICTNESS_LEVEL_ERROR and no profile: a collective that ends"
        " up synchronous fails the compile",
        program="alone",
        where="error",
        pattern=r"Expected instruction name to remain the same",
        options={STRICT: "PGLE_STRICTNESS_LEVEL_ERROR"},
        since="0.6.0",  # which names the level so
    ),
    "plain-synchronous-collectives": Probe(
        "a collective that ends up synchronous is one plain instruction, not -start and -done",
        program="alone",
        where="hlo",
        pattern=r"(all-reduce|async)-start\(",
        absent=True,
    ),
    "hosts-known": Probe(
        "compiled for absent GPUs, XLA knows how many share NVLink (partition_size)",
        where="config",
        pattern=r"^\s*partition_size: 8\b",
        topology="2x1x8",
    ),
    "windowed-einsum": Probe(
        "compiled for absent GPUs with xla_gpu_threshold_for_windowed_einsum_mib=0, a tensor-"
        "parallel product becomes a windowed einsum",
        program="tensor parallel",
        where="hlo",
        pattern=r"collective-permute",
        options={
            "xla_gpu_enable_triton_gemm": "False",
            "xla_gpu_threshold_for_windowed_einsum_mib": "0",
            "xla_gpu_multi_streamed_windowed_einsum": "False",
        },
    ),
    "pipelining-levels": Probe(
        "a compile accepts xla_gpu_pipeline_all_gather=COLLECTIVE_PIPELINING_MODE_ON",
        where="error",
        pattern=r"No such compile option",
        absent=True,
        options={"xla_gpu_pipeline_all_gather": "COLLECTIVE_PIPELINING_MODE_ON"},
    ),
    "cublaslt-despite-false": Probe(
        "an H100 without Triton's products and with xla_gpu_enable_cublaslt=false: a product is a"
        " call of cuBLASLt nevertheless",
        where="hlo",
        pattern=r"__cublas\$lt\$matmul",
        options={"xla_gpu_enable_triton_gemm": "False", "xla_gpu_enable_cublaslt": "False"},
    ),
    "remat-off-replaces-passes": Probe(
        "jax_compiler_enable_remat_pass=False: JAX replaces the list of xla_disable_hlo_passes",
        where="debug_options",
        pattern=r"xla_disable_hlo_passes: \"latency-hiding-scheduler\"",
        absent=True,
        flags="--xla_disable_hlo_passes=latency-hiding-scheduler",
        config={"jax_compiler_enable_remat_pass": False},
    ),
    "peak-counts-temporaries": Probe(
        "the peak memory that XLA reports counts temporaries", where="memory"
    ),
    "autopgle-clears-command-buffers": Probe(
        "AutoPGLE compiles the runs that it measures with xla_gpu_enable_command_buffer empty (read"
        " in jax/_src/compiler.py)",
        where="source",
        pattern=r"xla_gpu_enable_command_buffer\b",
    ),
}


@dataclass(frozen=True)
class Environment:
    """An installed release, and the descriptions of the chips without what it does not know."""

    release: str
    python: Path
    scratch: Path

    def holds(self, name: str, probe: Probe, targets: dict[str, str]) -> bool:
        """Compile, and return whether the observation is made."""
        directory = self.scratch / name
        directory.mkdir()
        toolkit = str(write_toolkit(directory / "toolkit"))
        options = {
            "xla_gpu_autotune_level": "0",
            "xla_gpu_cuda_data_dir": toolkit,
            "xla_dump_to": str(directory / "dump"),
            **probe.options,
        }
        if probe.profile:
            path = directory / "profile.pbtxt"
            if probe.profile != "missing":
                path.write_text(COSTS[probe.profile])
            options[PROFILE] = str(path)
        asked: dict[str, Any] = {
            "program": probe.program,
            "arguments": dict(probe.arguments),
            "topology": probe.topology,
            "options": options,
            "config": dict(probe.config),
        }
        while True:
            target = targets.setdefault(probe.chip, _target(probe.chip))
            (directory / "probe.json").write_text(json.dumps({**asked, "target": target}))
            log, compiled = self._run(probe, directory)
            unknown = _UNKNOWN_FIELD.findall(log)
            if compiled or not unknown:
                break
            targets[probe.chip] = without_field(target, unknown[-1])
        found = self._found(probe, directory, log) if compiled or probe.where == "error" else False
        if not compiled and not found:
            sys.stderr.write(log[-3000:])
            raise SystemExit(f"error: {self.release} does not compile {name} (above)")
        return found != probe.absent

    def _run(self, probe: Probe, directory: Path) -> tuple[str, bool]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        loud = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": VERBOSE}
        environment = {
            **kept,
            **({} if probe.quiet else loud),
            "JAX_PLATFORMS": "cpu",
            "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "XLA_FLAGS": probe.flags,
        }
        with (directory / "log").open("wb") as log:
            done = subprocess.run(  # noqa: S603  our own script
                [self.python, PROGRAMS, directory],
                env=environment,
                stdout=log,
                stderr=log,
                check=False,
            )
        return (directory / "log").read_text(errors="replace"), done.returncode == 0

    def _found(self, probe: Probe, directory: Path, log: str) -> bool:
        if probe.where == "memory":
            sizes = json.loads((directory / "memory.json").read_text())
            needed = sizes["temp_size"] + sizes["argument_size"]
            return sizes["peak_memory"] >= needed > sizes["argument_size"]
        if probe.where in ("log", "error"):
            text = log
        elif probe.where == "source":
            text = (directory / "compiler.py").read_text()
        else:
            endings = {
                "hlo": "*after_optimizations.txt",
                "config": "*.config.pbtxt",
                "debug_options": "*debug_options*",
            }
            text = "".join(
                path.read_text() for path in (directory / "dump").glob(endings[probe.where])
            )
        return re.search(probe.pattern, text, re.MULTILINE) is not None


def _target(chip: str) -> str:
    gpu = find_gpu(chip)
    if gpu is None:
        raise SystemExit(f"error: no chip {chip}")
    return target_config(gpu)


def installed(release: str, environments: Path) -> Path:
    """Install a release, and return its Python."""
    place = environments / release
    python = place / "bin" / "python"
    if (place / "ok").exists():
        return python
    number = version_number(release)
    interpreter = "3.12" if number >= (0, 11) else "3.11"
    cuda = "cuda13" if number >= (0, 7, 2) else "cuda12"
    plugin = [f"jax-{cuda}-{part}=={release}" for part in ("pjrt", "plugin")]
    into = ["uv", "pip", "install", "--quiet", "--python", str(python)]
    for command in (
        ["uv", "venv", "--quiet", "--python", interpreter, str(place)],
        [*into, f"jax=={release}", f"jaxlib=={release}"],
        [*into, "--no-deps", *plugin],
    ):
        subprocess.run(command, check=True)  # noqa: S603
    (place / "ok").touch()
    return python


def observe(release: str, environments: Path, names: Sequence[str]) -> dict[str, bool]:
    """Return what is observed of one release."""
    python = installed(release, environments)
    targets: dict[str, str] = {}
    seen: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as scratch:
        here = Environment(release, python, Path(scratch))
        for name in names:
            probe = PROBES[name]
            if probe.since and version_number(release) < version_number(probe.since):
                continue
            seen[name] = here.holds(name, probe, targets)
            sys.stderr.write(f"{release} {name} {seen[name]}\n")
            shutil.rmtree(Path(scratch) / name)
    return seen


def main() -> None:
    """Observe the named releases, by default those of the file, and write the file anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("environments", type=Path)
    parser.add_argument("releases", nargs="*")
    parser.add_argument("--only", action="append", choices=PROBES, help="keep all else")
    arguments = parser.parse_args()
    known = observed_releases()
    seen = {release: observed_of(release) for release in known}
    for release in arguments.releases or known:
        names = arguments.only or list(PROBES)
        found = observe(release, arguments.environments.absolute(), names)
        seen[release] = {**seen.get(release, {}), **found}
        whats = {name: probe.what for name, probe in PROBES.items()}
        OBSERVED.write_text(observations_text(seen, whats), "utf-8")


if __name__ == "__main__":
    main()
