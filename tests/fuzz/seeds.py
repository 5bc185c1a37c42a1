"""Makes a small valid input of every format, and says which commands read it."""

# ruff: noqa: C901, E501 - inputs are written as they are in files

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "timeline"), str(TESTS / "runs"), str(TESTS / "cli")]

READ = (
    ("explain", "@", "--json"),
    ("explain", "@", "--top", "20"),
    ("network", "@", "--json"),
    ("convert", "@", "out.parquet"),
    ("pgle", "make", "@", "-o", "out.pbtxt"),
    ("compare", "@", "@"),
    ("explain", "@", "--as", "digest"),
    ("explain", "@", "--html", "out.html"),
)
READ_NETWORK = (*READ, ("network", "@", "--target", "8xH100"))


@dataclass(slots=True)
class Seed:
    """Files of one valid input, and commands that read it: `@` is its path."""

    name: str
    files: dict[str, bytes]
    path: str
    commands: tuple[tuple[str, ...], ...]
    weight: int = 1
    shown: dict[str, str] = field(default_factory=dict[str, str])


def all_seeds(scratch: Path) -> list[Seed]:
    """Make all seeds."""
    return [
        *profiles(scratch),
        *stored(scratch),
        *programs(),
        *scripts(),
        *tables(),
        *lowered(),
        *logs(),
        *runs(scratch),
    ]


def profiles(scratch: Path) -> list[Seed]:

    from nsys_bundle import Bundle, module, thunk
    from nsys_export import Export
    from riegeli_builder import riegeli
    from trace_builder import packed, process, span, thread
    from xspace_builder import (
        US,
        hlo_proto,
        host,
        kernel,
        metadata,
        nvidia,
        step_marker,
        tpu,
        tpu_op,
        xspace,
    )

    gpus = [nvidia(0), nvidia(1)]
    program = hlo_proto(
        "jit_step",
        {"fusion.3": "fusion", "all-reduce-start.1": "all-reduce-start", "dot.1": "dot"},
        {"fusion.3": "jit(step)/transpose(jvp(layer))/mul"},
    )
    for gpu in gpus:
        for number in range(4):
            at = number * 1000 * US
            for op, start, dur in (
                ("fusion.3", 0, 200),
                ("dot.1", 210, 300),
                ("all-reduce-start.1", 100, 600),
            ):
                kernel(
                    gpu,
                    "Stream #7(Compute)" if op != "all-reduce-start.1" else "Stream #9(Collective)",
                    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" if "all" in op else f"k_{op}",
                    at + start * US,
                    dur * US,
                    op=op,
                    module=("jit_step", 3),
                )
    threads = host()
    for number in range(4):
        step_marker(threads, "python", number, number * 1000 * US, 990 * US)
    space = xspace(*gpus, threads, metadata({("jit_step", 3): program}))
    found = [Seed("xplane", {"h.xplane.pb": space}, "h.xplane.pb", READ_NETWORK, 3)]
    chip = tpu(0)
    try:
        for number in range(3):
            tpu_op(chip, "fusion.3", number * 100 * US, 50 * US)
    except TypeError:
        pass
    found.append(Seed("xplane-tpu", {"t.xplane.pb": xspace(chip)}, "t.xplane.pb", READ))
    events = [process(1, "/device:GPU:0"), thread(1, 7, "Stream #7(Compute)")]
    for number in range(3):
        events.append(
            span((1, 7), number * 100.0, 50.0, "gemm", hlo_op="fusion.3", hlo_module="jit_step")
        )
        events.append(
            span(
                (1, 7),
                number * 100.0 + 60,
                10.0,
                "nccl",
                hlo_op="all-reduce.1",
                hlo_module="jit_step",
            )
        )
    document = gzip.decompress(packed(events))
    found.append(Seed("trace", {"h.trace.json": document}, "h.trace.json", READ))
    found.append(Seed("trace.gz", {"h.trace.json.gz": packed(events)}, "h.trace.json.gz", READ))
    with Export(scratch / "host.sqlite") as export:
        for number in range(1, 5):
            export.module(1, number * 1000, number * 1000 + 90, "jit_step", 3)
            export.thunk(1, number * 1000 + 5, number * 1000 + 50, "fusion.3", "jit(step)/mul")
            export.call(1, number * 1000 + 10, number)
            export.kernel(0, 7, number * 1000 + 100, number * 1000 + 400, "gemm", number)
    found.append(
        Seed("sqlite", {"h.sqlite": (scratch / "host.sqlite").read_bytes()}, "h.sqlite", READ, 2)
    )
    ranges = []
    for number in range(0, 30, 3):
        ranges += [
            module(
                number + 1,
                "TSL:XlaModule:#prefix=jit(step),hlo_module=jit_step,program_id=3#",
                number * 100,
                250,
                tid=7,
            ),
            thunk(number + 2, number + 1, "fusion.3", number * 100, 100, tid=7),
            thunk(number + 3, number + 1, "all-reduce-start.1", number * 100 + 120, 60, tid=7),
        ]
    bundle = Bundle(ranges, programs={"0003.jit_step": program}, host_ranges=[(0, 100, "TSL:x", 7)])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in bundle.members().items():
            archive.writestr(name, content)
    found.append(Seed("bundle", {"b.zip": out.getvalue()}, "b.zip", READ, 2))
    found.append(
        Seed("riegeli", {"h.xplane.riegeli": riegeli([[space]])}, "h.xplane.riegeli", READ)
    )
    return found


def stored(scratch: Path) -> list[Seed]:
    import counterpoint
    from timelines import two_devices

    counterpoint.write_parquet(two_devices(), scratch / "t.parquet")
    files = {
        f"t.parquet/{path.name}": path.read_bytes() for path in (scratch / "t.parquet").iterdir()
    }
    return [Seed("stored", files, "t.parquet", READ_NETWORK, 4)]


def programs() -> list[Seed]:
    import lzma

    data = TESTS / "hlo" / "data"
    commands = (
        ("pgle", "check", "p.pbtxt", "--program", "@", "--json"),
        ("flags", "thresholds", "--program", "@"),
        ("flags", "effective", "@"),
        (
            "flags",
            "recommend",
            "--for",
            "fsdp",
            "--target",
            "8xH100",
            "--program",
            "@",
            "--no-probe",
        ),
        ("pgle", "check", "p.pbtxt", "--program", "@"),
    )
    profile = b'costs { name: "fusion.3" cost_us: 1.5 }\n'
    found = []
    for name in ("gpu_step", "gpu_pipelined", "cpu_zoo", "gpu_zoo"):
        for ending, file in ((".hlo.pb", "m.hlo.pb"), (".txt", "m.txt")):
            content = lzma.decompress((data / f"{name}{ending}.xz").read_bytes())
            found.append(
                Seed(f"hlo-{name}{ending}", {file: content, "p.pbtxt": profile}, file, commands)
            )
    return found


def scripts() -> list[Seed]:
    check = (
        ("flags", "check", "@", "--no-probe"),
        ("flags", "check", "@", "--no-probe", "--json"),
        ("flags", "render", "@", "--as", "python"),
        ("flags", "render", "@", "--as", "bash"),
        ("flags", "check", "@", "--no-probe", "--diff"),
        ("flags", "render", "@", "--as", "k8s"),
    )
    texts = {
        "a.sh": '#!/bin/bash\nBASE="--xla_gpu_graph_level=0 --xla_gpu_autotune_level=2"\nexport XLA_FLAGS="$BASE --xla_gpu_enable_latency_hiding_scheduler=true"\nexport NCCL_DEBUG=INFO\nfor i in 1 2; do\n  XLA_FLAGS="$XLA_FLAGS --xla_dump_to=/tmp/$i"\ndone\nif [ -n "$X" ]; then export NCCL_NVLS_ENABLE=0; fi\ncat <<EOF > job.yaml\nenv: $BASE\nEOF\nsetup() {\n  export NCCL_PROTO=${1:-LL}\n}\nssh host bash <<\'E\'\nexport NCCL_ALGO=Ring\nE\nCMD="export LIBTPU_INIT_ARGS=\'$XLA_FLAGS\' && python t.py"\nxpk run --command="$CMD" --env JAX_PLATFORMS=tpu\ncase $1 in a) eval "$CMD";; esac\npython train.py --steps 10 "$@"\n',
        "a.sbatch": "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nexport XLA_PYTHON_CLIENT_MEM_FRACTION=.9\nsrun --container-image=x bash -c 'XLA_FLAGS=\"--xla_gpu_graph_level=0\" python train.py'\n",
        "a.yaml": 'apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: c\n    image: i\n    command: ["bash", "-c", "export XLA_FLAGS=--xla_gpu_graph_level=0; python t.py"]\n    env: &e\n    - {name: XLA_FLAGS, value: "--xla_gpu_graph_level=0 --xla_gpu_autotune_level=9"}\n    - name: NCCL_DEBUG\n      value: INFO\n',
        "a.py": 'import os\nBASE = "--xla_gpu_graph_level=0"\nflags = [BASE, "--xla_gpu_autotune_level=2"]\nos.environ["XLA_FLAGS"] = " ".join(flags) + f" --xla_dump_to={BASE}"\nos.environ["XLA_FLAGS"] += " --xla_x=1"\nos.environ.setdefault("NCCL_DEBUG", "INFO")\nimport jax\njax.config.update("jax_enable_x64", True)\n',
        "Dockerfile": 'FROM x\nARG F=--xla_gpu_graph_level=0\nENV XLA_FLAGS="$F --xla_gpu_autotune_level=2" NCCL_DEBUG=INFO\nRUN export A=b && python x.py\nCMD ["python", "t.py"]\n',
        "a.env": "XLA_FLAGS=--xla_gpu_graph_level=0 --xla_gpu_autotune_level=2\nNCCL_DEBUG=INFO\n",
        "a.toml": 'about = "mine"\n[xla_flags]\nxla_gpu_graph_level = 0\nxla_gpu_autotune_level = { value = 2, reason = "it is quick", before = "0.9" }\n[env]\nNCCL_DEBUG = "INFO"\n',
        "a.json": json.dumps(
            {"env": {"XLA_FLAGS": "--xla_gpu_graph_level=0", "NCCL_DEBUG": "INFO"}}
        ),
        "a.md": '# Title\n\nSet `--xla_gpu_graph_level=0`.\n\n```bash\n$ export XLA_FLAGS="--xla_gpu_graph_level=0 --xla_dump_to=/x"\nssh host \'NCCL_DEBUG=INFO python t.py\'\n```\n\n1. ~~~python\n   os.environ["XLA_FLAGS"] = "--xla_x=1"\n   ~~~\n\n    export NCCL_ALGO=Ring\n\n```yaml\nenv:\n- {name: NCCL_PROTO, value: LL}\n```\n',
        "a.rst": "Title\n=====\n\n.. code-block:: bash\n   :caption: x\n\n   export XLA_FLAGS=--xla_gpu_graph_level=0\n\nThen::\n\n   NCCL_DEBUG=INFO python t.py\n",
        "a.log": "I0301 XLA_FLAGS=--xla_gpu_graph_level=0 --xla_x\n- name: NCCL_DEBUG\n  value: INFO\nNCCL_PROTO: LL\n--trainer.profiler true\n",
        "a.ipynb": json.dumps(
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "source": [
                            "%env NCCL_DEBUG=INFO\n",
                            "!JAX_PLATFORMS=cpu python x.py\n",
                            "import os\n",
                            "os.environ['XLA_FLAGS']='--xla_gpu_graph_level=0'\n",
                        ],
                        "metadata": {},
                        "outputs": [],
                    }
                ],
                "metadata": {},
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        ),
    }
    return [Seed(name, {name: text.encode()}, name, check, 2) for name, text in texts.items()]


HLO = """HloModule made, is_scheduled=true, num_partitions=2, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

body {
  q = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(q), index=0
  x = f32[8] get-tuple-element(q), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] sine(x)
  ROOT t = (s32[], f32[8]) tuple(j, y)
}

cond {
  q = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(q), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}

fused {
  a = f32[8] parameter(0)
  ROOT b = f32[8] exponential(a)
}

ENTRY main {
  p = f32[8] parameter(0)
  s = (f32[8], f32[16]) all-gather-start(p), replica_groups={{0,1}}, dimensions={0}
  f = f32[8] fusion(p), kind=kLoop, calls=fused
  d = f32[16] all-gather-done(s)
  zero = s32[] constant(0)
  w0 = (s32[], f32[8]) tuple(zero, f)
  w = (s32[], f32[8]) while(w0), condition=cond, body=body
  g = f32[8] get-tuple-element(w), index=1
  ROOT r = f32[8] copy(g)
}
"""


def tables() -> list[Seed]:
    pgle = (
        ("pgle", "show", "@"),
        ("pgle", "show", "@", "--json"),
        ("pgle", "diff", "@", "@", "--json"),
        ("pgle", "merge", "@", "@", "-o", "m.pbtxt"),
        ("pgle", "diff", "@", "@"),
        ("pgle", "check", "@", "--program", "m.txt", "--json"),
    )
    text = b'costs { name: "0123456789abcdef0123456789abcdef::fusion.3" cost_us: 1.5 }\ncosts { name: "dot.1" cost_us: 2.5 }\nlatencies { source: "a" target: "b" latency_us: 5 }\n'
    program = {"m.txt": HLO.encode()}

    def option(name: str) -> tuple[tuple[str, ...], ...]:
        return (
            ("predict", "m.txt", "--target", "8xH100", "--json", name, "@"),
            ("predict", "m.txt", "--target", "8xH100", name, "@"),
        )

    import tempfile

    from counterpoint.pgle.profiles.files import read_profile, write_profile

    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "p.pbtxt"
        source.write_bytes(text)
        write_profile(read_profile(source), Path(place) / "p.pb")
        binary = (Path(place) / "p.pb").read_bytes()
    target = b'base = "H100"\nhosts = 4\ngpus_per_host = 8\n[chip]\nhbm = "3.2 TB/s"\nmemory = "94 GB"\nflops.bf16 = "900 TFLOP/s"\n[links]\ngeneration = "NVLink 4"\ndomain = 8\nrate = "225 GB/s"\n[network]\nnics_per_host = 4\nnic = "200 Gb/s"\n'
    nccl = b"# nThread 1 nGpus 8\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n# Rank  0 Group  0 Pid  1 on h device  0\nAll_reduce\n     1048576        262144     float     sum      -1    45.10   23.25   40.69      0    45.00   23.30   40.78      0\n   134217728      33554432     float     sum      -1    900.1   149.1   260.9      0    900.0   149.1   260.9      0\n"
    return [
        Seed("pgle-text", {"p.pbtxt": text, **program}, "p.pbtxt", pgle, 2),
        Seed("pgle-binary", {"p.pb": binary, **program}, "p.pb", pgle),
        Seed(
            "hlo-made",
            dict(program),
            "m.txt",
            (
                ("predict", "@", "--target", "8xH100", "--json"),
                ("predict", "@", "--target", "8xH100", "--explain"),
                ("predict", "@", "--target", "64x8xH100:400G"),
            ),
            6,
        ),
        Seed(
            "target",
            {"t.toml": target, **program},
            "t.toml",
            (("predict", "m.txt", "--target", "@"), ("network", "x", "--target", "@")),
        ),
        Seed(
            "gemm-csv",
            {"g.csv": b"m,n,k,dtype,tflops\n4096,4096,4096,bf16,500\n", **program},
            "g.csv",
            option("--gemm-table"),
        ),
        Seed("nccl", {"n.log": nccl, **program}, "n.log", option("--nccl-table")),
        Seed(
            "kernel",
            {
                "k.toml": b'[[kernel]]\nmatch = "my_(fast|slow)kernel"\nus = "arg0[0] * 8 / 2"\n[[kernel]]\nmatch = "other"\nflops = 1e9\nbytes = 12\nefficiency = 0.5\n',
                **program,
            },
            "k.toml",
            option("--kernel-table"),
        ),
        Seed("profile", {"p.pbtxt": text, **program}, "p.pbtxt", option("--profile")),
        Seed(
            "calibration",
            {"c.toml": CALIBRATION, **program},
            "c.toml",
            (
                *option("--calibration"),
                ("calibrate", "m.txt", "--target", "8xH100", "--calibration", "@"),
            ),
        ),
    ]


CALIBRATION = b"""chip = "H100"

[matmul]
value = 0.7
reach = 0.1
source = "runs/train"

[memory]
value = 0.85

[fit]
runs = 3
"""

STABLEHLO = b"""module @jit_step attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}, %arg1: tensor<16x4xf32>) -> (tensor<8x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %2 = stablehlo.maximum %0, %1 : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}
"""


def lowered() -> list[Seed]:
    """StableHLO: as a file, and as one of several in a zip file."""
    predict = (("predict", "@", "--target", "2xH100", "--json"),)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("jax_ir0_step_compile.mlir", STABLEHLO)
        archive.writestr("jax_ir1_init_compile.mlir", STABLEHLO.replace(b"8x", b"2x"))
    return [
        Seed("stablehlo", {"step.mlir": STABLEHLO}, "step.mlir", predict, 0),
        Seed("stablehlo-zip", {"dump.zip": out.getvalue()}, "dump.zip", predict, 0),
    ]


def logs() -> list[Seed]:
    """What a program and XLA print, as `run` and `pgle check` read it."""
    text = b"""2025-04-15 16:33:04.1: I xla/service/gpu/gpu_hlo_schedule.cc:377] Using PGLE profile from "p"
I0000 00:00:1.000000 7 gpu_hlo_schedule.cc:377] Found 3 missing instructions. Discarding the profile.
step 3 loss 1.5 tokens/s 1000
[epoch 1] step: 4, loss: 1.25, seconds: 0.5
 10%|#         | 10/100 [00:01<00:09,  9.9it/s]
xla_gpu_enable_latency_hiding_scheduler: true
xla_gpu_graph_level: 0
"""
    return [Seed("log", {"l.log": text}, "l.log", (("flags", "check", "@", "--no-probe"),))]


def runs(scratch: Path) -> list[Seed]:
    from counterpoint.runs.outcomes import Outcome, OutcomeKind
    from counterpoint.runs.run import RunSettings
    from counterpoint.runs.writer import RankStart, RunStart, RunWriter
    from counterpoint.tune.study.directory import open_study
    from counterpoint.tune.study.records import StudyBegan
    from tune_studies import Made, arm

    place = scratch / "run"
    settings = RunSettings((("xla_gpu_autotune_level", "4"),), (("NCCL_DEBUG", "INFO"),))
    start = RunStart(
        name="train",
        command=("python", "train.py"),
        cwd="/home/me",
        settings=settings,
        launcher="local",
        world_size=1,
        version="0.1.0",
    )
    writer = RunWriter.claim(place, start)
    writer.add_rank(0)
    writer.start_rank(RankStart(0), os.getpid())
    writer.end_rank(0, Outcome(OutcomeKind.OK, 0))
    writer.end()
    rank = place / "rank0"
    (rank / "agent" / "steps-7.jsonl").write_text(
        "".join(
            json.dumps({"step": n, "start_s": 10.0 + n, "source": "annotation"}) + "\n"
            for n in range(12)
        )
    )
    (rank / "agent" / "compiles-7.jsonl").write_text(
        json.dumps({"kind": "backend", "seconds": 1.5, "module": "jit_step", "at_s": 3.0}) + "\n"
    )
    facts = json.dumps(
        {
            "pid": 7,
            "jax": "0.10.2",
            "jaxlib": "0.10.2",
            "platform": "gpu",
            "devices": ["H100"],
            "process_index": 0,
            "process_count": 1,
            "peak_memory": {"0": 12},
        }
    )
    (rank / "agent" / "process-7.json").write_text(facts)
    files = {
        f"r/run/{path.relative_to(place)}": path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and path.stat().st_size < 60000
    }
    read = (
        ("runs", "r", "--json"),
        ("runs", "r"),
        ("explain", "r/run"),
        ("flags", "effective", "r/run"),
        ("log", "r/run", "--json"),
        ("compare", "r/run", "r/run"),
        ("runs", "r/run"),
    )
    found = [Seed("run", files, "r/run", read, 4)]
    fast = arm("fast")
    made = Made(fast).entered(fast).noise()
    study = scratch / "study"
    first, *rest = made.records
    assert isinstance(first, StudyBegan)
    with open_study(study, first) as ledger:
        for record in rest:
            ledger.add(record)
    files = {
        f"s/{path.relative_to(study)}": path.read_bytes()
        for path in study.rglob("*")
        if path.is_file()
    }
    found.append(
        Seed(
            "study",
            files,
            "s",
            (
                ("tune", "show", "@"),
                ("tune", "show", "@", "--json"),
                ("tune", "show", "@", "--as", "bash"),
                ("log", "@", "--json"),
                ("tune", "show", "@", "--as", "digest"),
                ("runs", "@"),
            ),
            3,
        )
    )
    return found
