"""Settings written down in the form in which somebody needs them.

All forms of an environment can be read back: read_text(render(s, form)) has the same settings. A
layout is written by `slurm` only, compiler options by `compiler_options` only; the others say them
in a comment.
"""

from __future__ import annotations

from enum import StrEnum

from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue import Release
from counterpoint.flags.settings import Settings


class Form(StrEnum):
    """A form to write settings in."""

    ENV = "env"  # lines of an env file: NAME=value
    BASH = "bash"  # export NAME="value"
    PYTHON = "python"  # os.environ before jax starts
    SLURM = "slurm"  # a job script: #SBATCH for the layout, exports
    K8S = "k8s"  # the `env:` list of a container
    COMPILER_OPTIONS = "compiler_options"  # the dict that jax.jit takes, for one compile


def render(settings: Settings, form: Form | str, release: Release | None = None) -> str:
    """The text, ending with a line end.

    Compiler options are written for one release (without one, that of the jaxlib installed here,
    else the newest): their values have a syntax of their own, and what no compile takes by itself
    is left out with a comment.
    """
    match _form(form):
        case Form.ENV:
            from counterpoint.flags.forms.env import render_env as write
        case Form.BASH:
            from counterpoint.flags.forms.bash import render_bash as write
        case Form.PYTHON:
            from counterpoint.flags.forms.python import render_python as write
        case Form.SLURM:
            from counterpoint.flags.forms.slurm import render_slurm as write
        case Form.K8S:
            from counterpoint.flags.forms.k8s import render_k8s as write
        case Form.COMPILER_OPTIONS:
            return _compiler_options(settings, release)
    return write(settings)


def _compiler_options(settings: Settings, release: Release | None) -> str:
    from counterpoint.flags.forms.compiler_options import render_compiler_options
    from counterpoint.flags.live.installed import chosen_release

    return render_compiler_options(settings, release or chosen_release())


def _form(form: Form | str) -> Form:
    try:
        return Form(form)
    except ValueError:
        raise UsageError(
            f"{form}: no such form", why=f"the forms are {', '.join(Form)}", next="--as bash"
        ) from None
