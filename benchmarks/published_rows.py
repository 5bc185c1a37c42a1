"""Published step times as steps of examples/llama.py: which size, layout and flags each row is.

A row says the model, the GPUs and the parallelism. What it leaves out comes from the configuration
its publisher ran it with, which is public: paxml/contrib/gpu/scripts_gpu/configs.py (Pax, A100),
NVIDIA/dgxc-benchmarking paxml/configure.sh and paxml_mod_configs.py (Pax, H100) and
maxtext/configure.sh (MaxText). Nothing here depends on a step time.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

SIZES = {
    "GPT-126M": "gpt-126m",
    "GPT-5B": "gpt-5b",
    "GPT3-5B": "gpt-5b",
    "GPT-175B": "gpt-175b",
    "Llama2-7B": "7b",
    "Llama2-70B": "70b",
}
NODES_OF = 8
COLUMNS = (
    *("id", "framework", "model", "seq", "gpu", "gpus", "precision", "dp", "fsdp", "tp", "pp"),
    *("cp", "ep", "global_batch", "step_time_s", "date"),
)

# What every publisher of these rows sets: GEMMs from cuBLASLt, and collectives hidden behind work.
BASE = {
    "xla_gpu_enable_latency_hiding_scheduler": "true",
    "xla_gpu_enable_triton_gemm": "false",
    "xla_gpu_enable_highest_priority_async_stream": "true",
}
PIPELINED = {
    "xla_gpu_enable_pipelined_all_gather": "true",
    "xla_gpu_enable_pipelined_reduce_scatter": "true",
    "xla_gpu_enable_pipelined_all_reduce": "true",
    "xla_gpu_enable_all_gather_combine_by_dim": "false",
    "xla_gpu_enable_reduce_scatter_combine_by_dim": "false",
    "xla_disable_hlo_passes": "rematerialization",
}
PAX_H100 = {
    "xla_gpu_all_reduce_combine_threshold_bytes": "536870912",
    "xla_gpu_all_gather_combine_threshold_bytes": "536870912",
    "xla_gpu_reduce_scatter_combine_threshold_bytes": "8388608",
}
MAXTEXT_70B = {
    "xla_gpu_all_reduce_combine_threshold_bytes": "2147483648",
    "xla_gpu_all_gather_combine_threshold_bytes": "2147483648",
    "xla_gpu_reduce_scatter_combine_threshold_bytes": "33554432",
    "xla_gpu_enable_while_loop_double_buffering": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published step time, and the step that stands for it."""

    id: str
    model: str
    gpu: str
    devices: int
    precision: str
    date: str
    seconds: float
    size: str
    settings: tuple[tuple[str, str], ...]  # of examples/llama.py
    flags: tuple[tuple[str, str], ...]
    memory_fraction: str | None

    @property
    def target(self) -> str:
        hosts = self.devices // NODES_OF
        return f"{hosts}x{NODES_OF}x{self.gpu}" if hosts > 1 else f"{self.devices}x{self.gpu}"

    @property
    def step(self) -> tuple[object, ...]:
        """What is compiled: equal for rows that differ in their date alone."""
        return (self.size, self.target, self.settings, self.flags)

    @property
    def name(self) -> str:
        return f"{self.model} {self.precision}, {self.devices} {self.gpu}, {self.date}"


def read_rows(path: Path) -> tuple[list[Row], list[tuple[str, str]]]:
    """The rows that the example can express, and of the others why not."""
    rows: list[Row] = []
    refused: list[tuple[str, str]] = []
    with path.open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines)
        lacking = [name for name in COLUMNS if name not in (table.fieldnames or ())]
        if lacking:
            raise ValueError(f"{path} has no column {', '.join(lacking)}")
        for said in table:
            why = _why_not(said)
            if why:
                refused.append((said["id"], why))
                continue
            try:
                rows.append(_row(said))
            except (ValueError, TypeError, ZeroDivisionError) as error:
                raise ValueError(f"{path}, row {said['id']}: {error}") from error
    return rows, refused


def _why_not(said: dict[str, str]) -> str:
    if said["model"] not in SIZES:
        return f"no size of the example is {said['model']}"
    if said["precision"] not in ("bf16", "TE bf16"):
        return f"the example has no {said['precision']}"
    for axis in ("pp", "cp", "ep"):
        if said[axis] not in ("", "1"):
            return f"the example has no {axis}"
    return "" if said["step_time_s"] else "it says no step time"


def _row(said: dict[str, str]) -> Row:
    pax = said["framework"] == "Paxml"
    gpu = said["gpu"].partition("-")[0]
    data, fsdp = _layout(said)
    size = SIZES[said["model"]]
    remat, scan = _remat(said, pax=pax)
    fused = not pax or gpu != "A100" or said["precision"].startswith("TE")
    settings = {
        "data": data,
        "fsdp": fsdp,
        "tensor": said["tp"] or "1",
        "batch": _batch(said),
        "sequence": said["seq"],
        "remat": remat,
        "scan": scan,
        "attention": "cudnn" if fused else "xla",
        "embedding": "lookup" if pax else "onehot",
    }
    flags = dict(BASE)
    if gpu == "H100":
        flags |= PIPELINED | (PAX_H100 if pax else MAXTEXT_70B)
    return Row(
        id=said["id"],
        model=said["model"],
        gpu=gpu,
        devices=int(said["gpus"]),
        precision=said["precision"],
        date=said["date"].partition(" ")[0],
        seconds=float(said["step_time_s"]),
        size=size,
        settings=tuple(sorted(settings.items())),
        flags=tuple(sorted(flags.items())),
        memory_fraction=("0.9" if pax else "0.94") if gpu == "H100" else None,
    )


def _layout(said: dict[str, str]) -> tuple[str, str]:
    """Data and FSDP ways; "FSDP+DP" is FSDP within a node, data parallel between nodes."""
    if said["fsdp"].isdecimal():
        return said["dp"] or "1", said["fsdp"]
    return str(int(said["gpus"]) // NODES_OF), str(NODES_OF)


def _batch(said: dict[str, str]) -> str:
    """Sequences for each device, from the whole batch: tensor parallel ones share theirs."""
    return str(int(said["global_batch"]) / int(said["gpus"]))


def _remat(said: dict[str, str], *, pax: bool) -> tuple[str, str]:
    """What the backward pass finds kept, and whether layers run in a loop."""
    if not pax:
        return "save_dot_except_mlpwi", "true"
    if said["model"] == "GPT-126M":
        return "none", "false"  # unrolled, where Pax applies no policy
    if said["model"] == "GPT3-5B":
        return "dots", "true"  # SAVE_DOT_ONLY
    if said["model"] == "GPT-5B" and said["tp"] != "2":
        return "minimal", "true"  # SAVE_DOT_WITH_NO_BATCH_DIM
    return "full", "true"  # SAVE_NOTHING
