"""Settings written down in the form in which somebody needs them.

All forms but compiler options can be read back: read_text(render(s, form)) has the same settings.
"""

from __future__ import annotations

from enum import StrEnum

from counterpoint.flags.catalogue.release import Release
from counterpoint.flags.settings import Settings


class Form(StrEnum):
    """A form to write settings in."""

    ENV = "env"  # lines of an env file: NAME=value
    BASH = "bash"  # export NAME='value'
    PYTHON = "python"  # os.environ before jax starts
    SLURM = "slurm"  # a job script: #SBATCH for the layout, exports
    K8S = "k8s"  # the `env:` list of a container
    COMPILER_OPTIONS = "compiler_options"  # the dict that jax.jit takes, for one compile


def render(settings: Settings, form: Form | str, release: Release | None = None) -> str:
    """The text, ending with a line end.

    Compiler options are written for one release (without one, the newest): their values have a
    syntax of their own, and what no compile takes by itself is left out with a comment.
    """
    raise NotImplementedError
