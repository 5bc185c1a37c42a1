"""Settings that would let every profile lie unread are refused, where this XLA obeys them."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.capture.request import Request
from counterpoint.core.errors import UsageError
from counterpoint.workflow.feedback.task import Task, refuse_flags

LHS = "xla_gpu_enable_latency_hiding_scheduler"


def task(directory: Path, jaxlib: str, flags: str = "") -> Task:
    """A task whose interpreter is one that has this jaxlib."""
    python = directory / "python3"
    python.write_text(f'#!/bin/sh\necho \'{{"jaxlib": "{jaxlib}"}}\'\n')
    python.chmod(0o755)
    environment = {"PATH": f"{directory}:/usr/bin:/bin", "XLA_FLAGS": flags}
    return Task(
        request=Request(command=("python3", "train.py"), environment=environment),
        directory=directory / "out",
    )


def test_a_scheduler_that_is_off_is_refused_where_off_means_off(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="looks at no profile") as refused:
        refuse_flags(task(tmp_path, "0.12.0", f"--{LHS}=false"))
    assert refused.value.exit_code == 2
    refuse_flags(task(tmp_path, "0.10.2", f"--{LHS}=false"))
    refuse_flags(task(tmp_path, "0.12.0"))


def test_the_scheduler_stands_in_every_phase_unless_the_user_sets_it(tmp_path: Path) -> None:
    assert task(tmp_path, "0.10.2").under().flags == {LHS: "true"}
    assert LHS not in task(tmp_path, "0.10.2", f"--{LHS}=false").under().flags


@pytest.mark.parametrize("way", ["auto", "manual", "nsys"])
@pytest.mark.parametrize("words", [("--env", "JAX_PLATFORMS=cpu"), ()], ids=["--env", "exported"])
def test_without_gpus_nothing_is_run(
    counterpoint: Counterpoint, tmp_path: Path, way: str, words: tuple[str, ...]
) -> None:
    exported = {} if words else {"JAX_PLATFORMS": "cpu"}
    done = counterpoint("pgle", way, *words, "-o", "out", "--", "true", **exported)
    assert done.returncode == 2
    assert done.stderr.startswith("error: JAX_PLATFORMS=cpu: the program would not run on GPUs\n")
    assert not list(tmp_path.iterdir())


def test_a_jax_without_a_gpu_backend_is_refused(counterpoint: Counterpoint, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(
        '#!/bin/sh\necho \'{"python": "3.12.1", "jax": "0.10.2", "jaxlib": "0.10.2"}\'\n'
    )
    python.chmod(0o755)
    done = counterpoint("pgle", "manual", "-o", "out", "--", str(python), "train.py")
    assert done.returncode == 2
    assert f"the JAX of {python} has no GPU backend" in done.stderr
    assert [it.name for it in tmp_path.iterdir()] == ["python3"]
