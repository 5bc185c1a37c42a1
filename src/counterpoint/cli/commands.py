"""Every command of `counterpoint`: its name, its function, and its entry in the help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """A command that can be listed without being loaded.

    A name of two words is a command in a group: `pgle make`. If the first word alone is also a
    command, that is the default of the group: `tune`, next to `tune show`. The function is named,
    as MODULE:NAME, so that `--help` imports no command.
    """

    name: str
    function: str
    summary: str
    examples: tuple[str, ...] = ()


GROUPS = {
    "flags": "Check, explain, compare and recommend settings of XLA, JAX and NCCL.",
    "pgle": "Make, check and apply profiles that tell XLA's scheduler what instructions cost.",
}
"""The purpose of the commands whose names begin with this word."""

SECTIONS = {
    "Measure": ("run", "runs", "convert", "log", "doctor"),
    "Explain": ("explain", "view", "network", "compare", "explain-code"),
    "Settings": ("flags", "pgle"),
    "Predict": ("predict", "memory", "upgrade", "calibrate"),
    "Tune": ("tune",),
    "Shell": ("completion", "skill"),
}
"""The sections of `--help`, by purpose."""

COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        "explain",
        "counterpoint.cli.explain:explain",
        "Explain where a training step spends its time, what it waits for, and what to change.",
        examples=(
            "counterpoint explain logdir",
            "counterpoint explain rank*.zip --top 20",
            "counterpoint explain trace.xplane.pb --step 7 --device 0,1",
            "counterpoint explain trace.xplane.pb --last 10",
            "counterpoint explain trace.xplane.pb --json | jq .breakdown",
            "counterpoint explain trace.xplane.pb -o explain.json",
        ),
    ),
    Command(
        "view",
        "counterpoint.cli.view:view",
        "Look at a step in the browser: timeline, findings, ops, collectives, network.",
        examples=(
            "counterpoint view logdir",
            "counterpoint view runs/before runs/after",
            "counterpoint view predicted --with runs/train",
            "counterpoint view trace.xplane.pb --last 10 --port 8080 --no-browser",
        ),
    ),
    Command(
        "network",
        "counterpoint.cli.convert:network",
        "Analyze the network use of a step: slack, bandwidth, demand, bursts, bottlenecks.",
        examples=(
            "counterpoint network logdir --target 4x8xH100:400G",
            "counterpoint network rank*.zip --top 20",
            "counterpoint network predicted --json | jq .collectives",
        ),
    ),
    Command(
        "compare",
        "counterpoint.cli.compare:compare",
        "Find what made one run slower than another: op, phase, collective, schedule, setting.",
        examples=(
            "counterpoint compare runs/before runs/after",
            "counterpoint compare before.xplane.pb after.xplane.pb --top 20",
            "counterpoint compare runs/a1 runs/a2 runs/a3 --with runs/b1 runs/b2 runs/b3",
            "counterpoint compare main change --fail-above 2%",
            "counterpoint compare runs/before runs/after --json | jq .step",
        ),
    ),
    Command(
        "convert",
        "counterpoint.cli.convert:convert",
        "Convert profiles to Parquet tables, or to a trace for ui.perfetto.dev.",
        examples=(
            "counterpoint convert logdir step",
            "counterpoint convert rank*.zip run.pftrace",
            "counterpoint convert logdir run.pftrace --steps 100:110",
        ),
    ),
    Command(
        "run",
        "counterpoint.cli.run:run",
        "Run a workload with chosen settings, profile some steps, and keep all output.",
        examples=(
            "counterpoint run -- python train.py",
            "counterpoint run --profile-start-step 5 --profile-steps 10 -- python train.py",
            "counterpoint run --set xla_gpu_autotune_level=4 --env NCCL_DEBUG=INFO -- ./train.sh",
            "counterpoint run --ranks 2 -o both -- python train.py",
            "srun --ntasks-per-node=8 counterpoint run -- python train.py",
        ),
    ),
    Command(
        "runs",
        "counterpoint.cli.run:runs",
        "List runs with their outcomes, step times and profiles.",
        examples=(
            "counterpoint runs",
            "counterpoint runs experiments --json",
        ),
    ),
    Command(
        "log",
        "counterpoint.cli.log:log",
        "Log a result to W&B, TensorBoard, MLflow or Trackio: numbers, findings, report.",
        examples=(
            "counterpoint log runs/train --to wandb",
            "counterpoint log runs/train --to mlflow --run-id 3f0c...",
            "counterpoint log studies/64 --to tensorboard --dir logs/64",
            "counterpoint log trace.xplane.pb --json | jq .figures",
        ),
    ),
    Command(
        "predict",
        "counterpoint.cli.predict:predict",
        "Predict the step time on GPUs that you do not have: real compiler, simulated devices.",
        examples=(
            "counterpoint predict --target 64x8xH100:400G -- python train.py",
            "counterpoint predict ir --target 8xH100 --candidate pgle-recommended",
            "counterpoint predict step.py:make_step --target 512x8xB200 --json",
            "counterpoint predict runs/train --target 8xH100 --against runs/train",
            "counterpoint predict ir --target 8x8xH100 --what-if nic=2x,hbm=1.5x --pgle",
        ),
    ),
    Command(
        "memory",
        "counterpoint.cli.memory:memory",
        "Show what fills a device's memory, whose it is, and what would make the step fit.",
        examples=(
            "counterpoint memory --target 8xH100 -- python train.py",
            "counterpoint memory ir --target 8xH100 --fit",
            "counterpoint memory dump/module.after_optimizations.hlo.pb --target 8xH100",
            "counterpoint memory ir --target v5e-8 --json | jq .owners",
        ),
    ),
    Command(
        "upgrade",
        "counterpoint.cli.upgrade:upgrade",
        "Predict what a new release of JAX does to a step, and which flags undo it.",
        examples=(
            "counterpoint upgrade step.py:make_step --target 8xH100 --from 0.10.2 --to 0.12.0",
            "counterpoint upgrade --target 8xH100 -- python train.py",
            "counterpoint upgrade ir --target 8xH100 --from 0.8.3 --fail-above 2%",
        ),
    ),
    Command(
        "tune",
        "counterpoint.cli.tune:tune",
        "Find faster settings: predict first, then confirm by measurement, beyond noise.",
        examples=(
            "counterpoint tune --target 8xH100 --confirm 4 --budget 2h -- python train.py",
            "counterpoint tune --predict step.py:make_step --target 64x8xH100:400G -o studies/64",
            "counterpoint tune --arm fsdp --arm 'NCCL_NVLS_ENABLE=0' -- python train.py",
            "counterpoint tune --target 8xH100 --dry-run -- python train.py",
            "counterpoint tune show counterpoint-studies/20261122-101500-train",
        ),
    ),
    Command(
        "tune show",
        "counterpoint.cli.tune_show:show",
        "Show the result of a study, write its settings for your launcher, bundle its files.",
        examples=(
            "counterpoint tune show studies/64",
            "counterpoint tune show studies/64 --as slurm -o job.sbatch",
            "counterpoint tune show studies/64 --bundle study.tar.gz",
            "counterpoint tune show studies/64 --json | jq .sentence",
        ),
    ),
    Command(
        "doctor",
        "counterpoint.cli.doctor:doctor",
        "Check before a run: versions, flags, profiler, cache, network, clocks, limits, GPUs.",
        examples=(
            "counterpoint doctor",
            "counterpoint doctor --only nccl-interfaces,DOC5",
            "counterpoint doctor --json -o node0.json",
            "counterpoint doctor --compare node0.json node1.json",
        ),
    ),
    Command(
        "calibrate",
        "counterpoint.cli.calibrate:calibrate",
        "Fit the factors of the cost model to measurements on your GPUs.",
        examples=(
            "counterpoint calibrate runs/train --target 8xH100 -o h100.toml",
            "counterpoint predict ir --target 64x8xH100 --calibration h100.toml",
        ),
    ),
    Command(
        "flags check",
        "counterpoint.cli.flags_check:check",
        "Check settings: what XLA rejects, what has no effect, and what to write instead.",
        examples=(
            "counterpoint flags check job.sh",
            "counterpoint flags check '--xla_gpu_graph_level=0' --jaxlib 0.12.0.1 --target 8xH100",
            "counterpoint flags check --env",
            "counterpoint flags check -- XLA_FLAGS=--xla_... python train.py",
            "counterpoint flags check job.sh --diff",
            "counterpoint flags check job.sh --fix",
        ),
    ),
    Command(
        "explain-code",
        "counterpoint.cli.explain_code:explain_code",
        "Explain the code of a finding, and how to fix its cause.",
        examples=(
            "counterpoint explain-code STEP101",
            "counterpoint explain-code FLAG102",
            "counterpoint explain-code",
        ),
    ),
    Command(
        "pgle make",
        "counterpoint.cli.pgle:make",
        "Make a profile for XLA's scheduler from recordings of GPUs or TPUs.",
        examples=(
            "counterpoint pgle make runs/tuned -o step.pbtxt",
            "counterpoint pgle make rank*.zip -o profiles/",
            "counterpoint pgle make trace.xplane.pb -o step.pb --module jit_train_step",
        ),
    ),
    Command(
        "pgle show",
        "counterpoint.cli.pgle:show",
        "Show the contents of a profile: modules, the largest costs, duplicates.",
        examples=(
            "counterpoint pgle show step.pbtxt",
            "counterpoint pgle show profiles/ --top 30",
        ),
    ),
    Command(
        "pgle merge",
        "counterpoint.cli.pgle:merge",
        "Merge profiles of several hosts, runs or modules into one.",
        examples=(
            "counterpoint pgle merge run1.pbtxt run2.pbtxt run3.pbtxt -o step.pbtxt",
            "counterpoint pgle merge train.pbtxt eval.pbtxt -o profiles/",
        ),
    ),
    Command(
        "pgle diff",
        "counterpoint.cli.pgle:diff",
        "Compare two profiles, the largest change first.",
        examples=("counterpoint pgle diff before.pbtxt after.pbtxt",),
    ),
    Command(
        "pgle check",
        "counterpoint.cli.pgle:check",
        "Check how much of a program a profile covers, and whether it was made from it.",
        examples=(
            "counterpoint pgle check step.pbtxt --program xla_dump",
            "counterpoint pgle check step.pbtxt --program runs/train --min-time 0.95",
            "counterpoint pgle check profiles --program trace.xplane.pb --module jit_step --json",
            "counterpoint pgle check --log runs/train",
        ),
    ),
    Command(
        "pgle apply",
        "counterpoint.cli.pgle:apply",
        "Compile with a profile, without a GPU: prove that XLA used it, and show what it moved.",
        examples=(
            "counterpoint pgle apply step.pbtxt --program ir --target 8xH100",
            "counterpoint pgle apply step.pbtxt --program runs/train --target 8x8xH100",
            "counterpoint pgle apply step.pb --program step.mlir --target 8xH100 --json",
            "counterpoint pgle apply costs.pbtxt --program step.mlir --target v5e-16 -o libtpu.pb",
        ),
    ),
    Command(
        "pgle auto",
        "counterpoint.cli.pgle_workflows:auto",
        "Let JAX measure the first calls, and recompile with the result (AutoPGLE).",
        examples=(
            "counterpoint pgle auto -- python train.py",
            "counterpoint pgle auto --nsys -o tuned -- python train.py",
            "counterpoint pgle auto --print-only -- python train.py",
        ),
    ),
    Command(
        "pgle manual",
        "counterpoint.cli.pgle_workflows:manual",
        "Profile a run, compile with its costs, prove that they were used, and compare.",
        examples=(
            "counterpoint pgle manual --profile-start-step 5 -- python train.py",
            "counterpoint pgle manual --repeats 3 -o tuned -- python train.py",
            "counterpoint pgle manual --profile step.pbtxt -- python train.py",
            "counterpoint pgle manual --print-only -- python train.py",
        ),
    ),
    Command(
        "pgle nsys",
        "counterpoint.cli.pgle_workflows:nsys",
        "Like `pgle manual`, but measured by Nsight Systems, or from one of its exports.",
        examples=(
            "counterpoint pgle nsys -- python train.py",
            "counterpoint pgle nsys --from rank*.zip -- python train.py",
        ),
    ),
    Command(
        "flags show",
        "counterpoint.cli.flags:show",
        "Describe a setting: its effect, its cost, where it is accepted, its history.",
        examples=(
            "counterpoint flags show xla_gpu_enable_latency_hiding_scheduler",
            "counterpoint flags show --xla_gpu_all_gather_combine_threshold_bytes=256",
            "counterpoint flags show NCCL_NVLS_ENABLE --jaxlib 0.6.2 --json",
        ),
    ),
    Command(
        "flags list",
        "counterpoint.cli.flags:list_flags",
        "List the flags of a jaxlib with their types, defaults and what changed.",
        examples=(
            "counterpoint flags list --grep combine",
            "counterpoint flags list --changed-since 0.8.3",
            "counterpoint flags list --jaxlib 0.6.2 --all --json",
        ),
    ),
    Command(
        "flags diff",
        "counterpoint.cli.flags:diff",
        "List the changes between two releases of jaxlib.",
        examples=(
            "counterpoint flags diff 0.6.2 0.10.2",
            "counterpoint flags diff 0.8.3 --json",
        ),
    ),
    Command(
        "flags effective",
        "counterpoint.cli.flags:effective",
        "Compare the values that the compiler used with the requested ones.",
        examples=(
            "counterpoint flags effective runs/train",
            "counterpoint flags effective xla_dump --asked job.sh --module jit_train_step",
            "counterpoint flags effective job.sh --as env",
            "counterpoint flags effective runs/train --json",
        ),
    ),
    Command(
        "flags render",
        "counterpoint.cli.flags_advice:render_flags",
        "Write settings as env file, shell, Python, Slurm job, manifest or compiler options.",
        examples=(
            "counterpoint flags render job.sh --as k8s",
            "counterpoint flags render pgle-recommended mine.sh --as python -o settings.py",
            "counterpoint flags render job.sh --as compiler_options --jaxlib 0.10.2",
            "counterpoint flags render old.sh --diff new.yaml",
        ),
    ),
    Command(
        "flags recommend",
        "counterpoint.cli.flags_advice:recommend",
        "Recommend settings: accepted by the release, different from its defaults, and relevant.",
        examples=(
            "counterpoint flags recommend --for fsdp --target 8xH100",
            "counterpoint flags recommend --for fsdp,tp --target 4x8xH100 --program xla_dump",
            "counterpoint flags recommend --for pp --target 8xB200 --jaxlib 0.12.0 --as bash",
            "counterpoint flags recommend --for dp --goal memory --json",
        ),
    ),
    Command(
        "flags thresholds",
        "counterpoint.cli.flags_advice:thresholds",
        "Show which collectives XLA merges at which thresholds, and the thresholds worth trying.",
        examples=(
            "counterpoint flags thresholds --program xla_dump",
            "counterpoint flags thresholds --program runs/train --json",
            "counterpoint flags thresholds --params 218e6 --dtype bf16 --layers 32",
        ),
    ),
    Command(
        "skill",
        "counterpoint.cli.skill:skill",
        "Print how a coding agent uses Counterpoint: which command answers which question.",
        examples=("counterpoint skill > SKILL.md",),
    ),
    Command(
        "completion",
        "counterpoint.cli.app:completion",
        "Print a script that makes bash, zsh or fish complete commands, options and files.",
        examples=(
            "counterpoint completion bash > ~/.counterpoint.bash   # then: . ~/.counterpoint.bash",
            "counterpoint completion zsh > ~/.zfunc/_counterpoint",
            "counterpoint completion fish > ~/.config/fish/completions/counterpoint.fish",
        ),
    ),
)
