"""What a program jits is caught, and the program ends there: it neither trains nor takes memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lowering_scripts as scripts
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.core.errors import CounterpointError, InputError, UsageError
from counterpoint.hardware.targets import parse_target
from counterpoint.lowering import lower_command
from counterpoint.lowering.result import Lowering
from counterpoint.trainers import trainers

pytestmark = pytest.mark.system
TRAINERS = {trainer.name: trainer for trainer in trainers()}


@pytest.fixture(autouse=True)
def _no_flags(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in [name for name in os.environ if name.startswith(("XLA_", "JAX_", "NCCL_"))]:
        monkeypatch.delenv(name)


def lower(
    directory: Path,
    script: str,
    *words: str,
    devices: int = 8,
    target: str | None = None,
    program: str | None = None,
    contain: bool = True,
) -> Lowering:
    path = directory / "train.py"
    path.write_text(script)
    described = parse_target(target, tpus=True) if target else None
    return lower_command(
        [sys.executable, str(path), *words],
        devices=described.devices if described else devices,
        target=described,
        directory=directory / "lowered",
        program=program,
        timeout_s=120,
        contain=contain,
    )


def printed(lowering: Lowering) -> str:
    return (lowering.directory / "stdout").read_text()


@pytest.mark.smoke
def test_the_step_is_lowered_and_only_zeros_are_trained(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "train.py").write_text(scripts.TRAINING)

    found = lower_command(
        [sys.executable, str(tmp_path / "train.py")],
        devices=8,
        directory=tmp_path / "lowered",
        on_progress=said.append,
    )

    assert (found.name, found.devices, found.platform) == ("jit_train_step", 8, "cuda")
    assert set(found.others) == {"jit_init", "jit_evaluate"}
    assert "evaluated True" in printed(found)
    assert (found.cycle, found.order) == ((), ())  # one call is an iteration
    assert any(it.startswith("lowered jit_train_step") for it in said)
    workload = load_workload(found.directory, found.name)
    assert workload.devices == 8
    assert b"transpose(jvp" in workload.program  # scopes
    assert b"train.py" in workload.program  # source lines


def test_a_trainer_that_times_its_kernels_takes_what_its_file_of_data_says(tmp_path: Path) -> None:
    (name,) = (each.name for each in TRAINERS["Levanter"].measures)
    (tmp_path / "levanter").mkdir()
    script = tmp_path / "levanter" / "train_lm.py"
    script.write_text(f"import os\nprint('asked', os.environ.get({name!r}))\n" + scripts.TRAINING)

    found = lower_command([sys.executable, str(script)], devices=8, directory=tmp_path / "lowered")

    assert "asked 0" in printed(found)
    assert any(f"{name}=0" in note for note in found.notes)


def test_the_order_of_a_mesh_is_kept_with_its_step(tmp_path: Path) -> None:
    plain = "np.array(jax.devices())"
    assert plain in scripts.TRAINING
    script = scripts.TRAINING.replace(plain, f"{plain}.reshape(2, 4).T.reshape(-1)", 1)
    found = lower(tmp_path, script)
    text = load_workload(found.directory, found.name).program
    assert text.endswith(b"// counterpoint.device_order = 0,4,1,5,2,6,3,7\n")


def test_weights_that_no_memory_holds_are_lowered_with_their_shardings(tmp_path: Path) -> None:
    found = lower(tmp_path, scripts.TRAINING, "--width", "131072", devices=64)  # 2 x 550 GB

    assert found.name == "jit_train_step"
    assert "'data'" in printed(found)  # as XLA propagates it through the function that made them
    assert "count 0" in printed(found)
    assert load_workload(found.directory).devices == 64


def test_a_program_for_gpus_gets_virtual_ones_and_its_flags_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")

    found = lower(tmp_path, scripts.FOR_GPUS)

    assert found.name == "jit_local"
    assert found.xla_flags == "--xla_gpu_autotune_level=4 --xla_gpu_enable_pipelined_p2p=true"
    assert "flags in XLA_FLAGS: 1 from your environment, 1 from the program" in found.notes
    assert found.variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.92"
    assert not any("also runs" in note for note in found.notes)  # only itself, sharded otherwise
    assert any("jax.distributed.initialize did nothing" in note for note in found.notes)
    assert b"on_gpu" in load_workload(found.directory).program


def test_virtual_devices_say_what_the_gpus_of_the_target_say(tmp_path: Path) -> None:
    found = lower(tmp_path, scripts.DESCRIBED, target="2x8xH100")

    said = printed(found).splitlines()
    assert said == [
        "gpu gpu NVIDIA H100 80GB HBM3",
        "9.0 132",
        "slices [0, 1] 1",
        "local 7 [7]",
        "process 0 1",
        "limit 59",
        f"hybrid (2, 8) {[*range(8, 16)]}",
        f"hybrid (2, 8) {[*range(8, 16)]}",
        "make_mesh 16",
    ]
    assert any("2 values of slice_index, 8 devices each" in note for note in found.notes)
    assert any("jax.local_device_count() returned 16" in note for note in found.notes)
    refused = any("jax.make_mesh" in note and "several hosts" in note for note in found.notes)
    assert refused or found.jax.startswith(("0.8", "0.9"))  # later ones refuse GPUs, too


def test_virtual_devices_say_what_the_tpus_of_the_target_say(tmp_path: Path) -> None:
    found = lower(tmp_path, scripts.ON_TPUS, target="2xv5e-16")

    assert printed(found).splitlines() == [
        "tpu tpu TPU v5 lite",
        "coords [2, 0, 0] [3, 3, 0] 0",
        "slices [0, 1] limit 15.75",
        "gpu attributes False",
        "kernel (64, 128)",
    ]
    assert found.platform == "tpu"
    assert b"on_tpus" in load_workload(found.directory).program
    assert any('returned "tpu"' in note for note in found.notes)


def test_hosts_of_one_nvlink_domain_are_one_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = lower(tmp_path, scripts.SLICES, target="4x4xGB200")
    assert "GB200 10.0" in printed(joined)
    assert "slices 1" in printed(joined)

    monkeypatch.setenv("JAX_PARTITION_INDEX", "0")
    told = lower(tmp_path, scripts.SLICES, target="2x8xA100")
    assert "A100" in printed(told)
    assert "slices 1" in printed(told)
    assert any("JAX_PARTITION_INDEX" in note for note in told.notes)


def test_attention_of_cudnn_is_lowered_where_no_cudnn_is(tmp_path: Path) -> None:
    found = lower(tmp_path, f"MANUAL = True\n{scripts.ATTENTION}")

    assert b"__cudnn$fmha" in load_workload(found.directory).program
    assert any("cuDNN" in note for note in found.notes)


def test_more_devices_than_a_process_has_are_no_hindrance(tmp_path: Path) -> None:
    """Nothing can be compiled for them on a CPU, so how results are sharded is asked of Shardy."""
    found = lower(tmp_path, scripts.TRAINING, "--width", "4200", devices=2100)

    assert (found.name, found.devices) == ("jit_train_step", 2100)
    assert "'data'" in printed(found)


def test_attention_of_cudnn_outside_of_a_shard_map_is_lowered_for_each_device(
    tmp_path: Path,
) -> None:
    """It is a custom_partitioning: a pointer to Python code until that code is asked."""
    found = lower(tmp_path, f"MANUAL = False\n{scripts.ATTENTION}")

    program = load_workload(found.directory, found.name).program
    assert program.count(b"@__cudnn$fmha") == 2  # forward and backward
    assert b"tensor<1x128x2x64xbf16>" in program  # of the batch of 8, on 8 devices
    assert b"CustomSPMDPartitioning" not in program


def test_a_custom_partitioning_that_must_stay_is_an_error_with_its_reason(tmp_path: Path) -> None:
    script = f"MANUAL = True\n{scripts.ATTENTION}".replace(
        'jax.sharding.Mesh(jax.devices(), ("data",))', 'jax.make_mesh((4, 2), ("data", "heads"))'
    ).replace("out_specs", 'axis_names={"data"}, out_specs')
    script = script.replace('"cudnn" if jax.default_backend() == "gpu" else "xla"', '"cudnn"')
    assert "axis_names" in script
    with pytest.raises(InputError, match="custom_partitioning") as raised:
        lower(tmp_path, script)
    assert "shard_map of" in (raised.value.why or "")


def test_attention_of_a_missing_transformer_engine_is_that_of_cudnn(tmp_path: Path) -> None:
    found = lower(tmp_path, f"DROPOUT = 0.0\n{scripts.FUSED}")

    program = load_workload(found.directory, found.name).program
    assert program.count(b"@__cudnn$fmha") == 2
    assert any(note.startswith("transformer_engine ") for note in found.notes)


def test_what_the_stand_in_lacks_ends_as_without_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exit code 1") as raised:
        lower(tmp_path, f"DROPOUT = 0.1\n{scripts.FUSED}")
    why = raised.value.why or ""
    assert "dropout: what takes" in why
    assert "named 'transformer_engine'" in why


@pytest.mark.parametrize(
    ("script", "times", "told"),
    [
        (scripts.REFUSING, 1, "ValueError: 7 sequences do not divide"),
        (scripts.CHOOSING, 2, "RuntimeError: as on gpu"),
    ],
    ids=["its own refusal", "as on GPUs"],
)
def test_of_a_program_that_fails_in_any_case_the_first_error_is_told(
    tmp_path: Path, script: str, times: int, told: str
) -> None:
    starts = tmp_path / "starts"
    with pytest.raises(InputError) as raised:
        lower(tmp_path, script, str(starts), contain=False)
    assert raised.value.why is not None
    assert told in raised.value.why
    assert starts.read_text() == "started\n" * times


def test_an_installed_transformer_engine_is_not_replaced(tmp_path: Path) -> None:
    home = tmp_path / "transformer_engine" / "jax"
    home.mkdir(parents=True)
    (home.parent / "__init__.py").touch()
    (home / "__init__.py").touch()
    with pytest.raises(InputError) as raised:
        lower(tmp_path, f"DROPOUT = 0.0\n{scripts.FUSED}")
    assert "named 'transformer_engine.jax.attention'" in (raised.value.why or "")


def test_of_a_program_without_a_backward_pass_the_heaviest_is_taken(tmp_path: Path) -> None:
    found = lower(tmp_path, scripts.INFERENCE)

    assert found.name == "jit_prefill"
    assert any("no backward pass" in note for note in found.notes)


def test_a_program_in_a_directory_called_jax_is_not_jax(tmp_path: Path) -> None:
    for directory in (tmp_path / "jax", tmp_path / "jax" / "_src"):
        directory.mkdir()
        assert lower(directory, scripts.PLAIN).name == "jit_train_step"


@pytest.mark.parametrize(
    ("script", "name"),
    [(scripts.SCANNED, "lax.scan"), (scripts.SOLVED, "lax.while_loop")],
    ids=["training", "no backward pass"],
)
def test_a_loop_outside_of_jit_is_the_step_of_a_program_without_another(
    tmp_path: Path, script: str, name: str
) -> None:
    found = lower(tmp_path, script)

    assert any(f"one call of {name} outside of jax.jit" in note for note in found.notes)
    assert "stablehlo.while" in load_workload(found.directory, found.name).program.decode()


@pytest.mark.parametrize(
    ("target", "call"),
    [("1xH100", "xla_ffi_python_gpu_callback"), ("v5e-1", "stablehlo.send")],
)
def test_calls_into_python_are_lowered_for_the_target(
    tmp_path: Path, target: str, call: str
) -> None:
    found = lower(tmp_path, scripts.CALLING, target=target)

    assert found.platform == ("tpu" if target == "v5e-1" else "cuda")
    assert call in load_workload(found.directory, found.name).program.decode()


def test_arrays_that_are_created_one_by_one_do_not_fill_the_memory(tmp_path: Path) -> None:
    found = lower(tmp_path, scripts.CREATING)

    assert found.name == "jit_train_step"
    assert float(printed(found)) < 4.0  # GiB; they have 7.5


def test_a_program_is_chosen_by_name(tmp_path: Path) -> None:
    assert lower(tmp_path, scripts.TRAINING, program="evaluate").name == "jit_evaluate"


@pytest.mark.parametrize(
    ("script", "program", "told"),
    [
        (scripts.EAGER, None, ("without jitting a function", "jax.jit")),
        (scripts.FAILING, None, ("exit code 1", "ValueError: no data at gs://here")),
        ("import jax\njax.jit(lambda x: x)(1)", "step", ("--program step", "jit__lambda")),
        ("print('no jax')", None, ("Python processes imported jax", "-- python train.py")),
    ],
    ids=["eager", "failing", "other name", "no jax"],
)
def test_a_program_without_a_step_says_why(
    tmp_path: Path, script: str, program: str | None, told: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        lower(tmp_path, script, program=program)

    assert all(word in str(caught.value) for word in told)


@pytest.mark.parametrize(
    ("command", "kind", "told"),
    [
        ([], UsageError, "no command was given"),
        (["no-such-program"], UsageError, "not on the PATH"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], InputError, "after 0.3 s"),
        ([sys.executable, "-c", "import os; os.abort()"], InputError, "by SIGABRT"),
    ],
    ids=["none", "missing", "slow", "crash"],
)
def test_a_command_that_can_not_be_lowered_is_refused(
    tmp_path: Path, command: list[str], kind: type[CounterpointError], told: str
) -> None:
    limit = 0.3 if "sleep" in "".join(command) else 60
    with pytest.raises(kind, match=told):
        lower_command(command, devices=2, directory=tmp_path / "lowered", timeout_s=limit)


@pytest.mark.parametrize(
    ("script", "name"),
    [(scripts.IN_TWO, "jit__lambda"), (scripts.ADDED_UP, "jit_add_up")],
    ids=["a gradient", "gradients added up"],
)
def test_what_a_turn_of_the_loop_runs_beside_a_gradient_is_part_of_the_step(
    tmp_path: Path, script: str, name: str
) -> None:
    found = lower(tmp_path, script)

    assert found.name == name
    assert {name, "jit_apply"} <= {function.name for function in found.cycle}
    assert not any("leaves out" in note for note in found.notes)


def test_a_function_within_pmap_keeps_its_name(tmp_path: Path) -> None:
    assert lower(tmp_path, scripts.MAPPED).name == "pmap_update"
    assert lower(tmp_path, scripts.MAPPED, program="update").name == "pmap_update"


def test_files_that_were_there_are_not_overwritten_with_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    precious = [Path("last.npy"), Path("best.npy"), Path("oldest.npy"), Path("rotated/1.npy")]
    precious[-1].parent.mkdir()
    for path in (*precious, Path("log.txt")):
        path.write_text("precious\n")

    with pytest.raises(InputError) as caught:
        lower(tmp_path, scripts.SAVING, devices=1, contain=False)

    assert "enough" in str(caught.value)
    assert all(path.read_text() == "precious\n" for path in precious)
    assert Path("log.txt").read_text() == "precious\nsaved\n"
    told = str(caught.value)
    assert all(name in told for name in ("best.npy", "oldest.npy", "not changed", "new.npy"))
    assert "jit__lambda" in told  # it had lowered something


def test_on_a_layer_all_files_stay_and_nothing_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    precious = [Path("last.npy"), Path("oldest.npy"), Path("rotated/1.npy"), Path("log.txt")]
    precious[2].parent.mkdir()
    for path in precious:
        path.write_text("precious\n")

    with pytest.raises(InputError, match="enough") as caught:
        lower(tmp_path, scripts.SAVING, devices=1)

    if "ran on a temporary layer" not in str(caught.value):
        pytest.skip(f"no layer: {caught.value}")
    assert all(path.read_text() == "precious\n" for path in precious)
    assert not Path("new.npy").exists()
    assert not Path("best.npy").exists()
    assert "not changed" not in str(caught.value)


def test_a_program_that_wants_another_number_of_devices_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--target with 16 GPUs"):
        lower(tmp_path, scripts.COUNTING)


def test_more_devices_than_can_be_had_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most, not 24,000"):
        lower(tmp_path, scripts.TRAINING, devices=24000)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_the_program_ends_with_us(tmp_path: Path, number: int) -> None:
    script, told = tmp_path / "stuck.py", tmp_path / "lowered" / "pid"
    script.write_text(scripts.STUCK)
    ours = (
        "import sys; from pathlib import Path; from counterpoint.lowering import *;"
        f"lower_command(['bash', '-c', '{sys.executable} {script} {told}; true'], devices=1,"
        f" directory=Path({str(tmp_path / 'lowered')!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", ours])
    pid = int(once(lambda: told.read_text() if told.exists() else ""))
    process.send_signal(number)
    process.wait()

    assert once(lambda: "gone" if is_gone(pid) else "") == "gone"


def once(found: Callable[[], str]) -> str:
    """What is found, as soon as it is."""
    for _ in range(600):
        if text := found():
            return text
        time.sleep(0.05)
    return ""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
