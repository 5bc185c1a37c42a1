"""The child that calls a user's function: `python -m ...compile.inputs.function_worker`.

Its arguments are the output directory, the file or module, the function's name and the number of
devices. Errors of the user's code go to stderr as Python prints them, without our frames.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from counterpoint.compile.inputs.function import absent_device, program, target_platform
from counterpoint.compile.inputs.function_process import OUTCOME
from counterpoint.compile.inputs.workload import Workload
from counterpoint.core import CounterpointError, UsageError
from counterpoint.core.injection import when_loaded
from counterpoint.core.printable import some
from counterpoint.lowering import watch_training

Made: TypeAlias = Any  # the return value of the user's function

CONTRACT: Final = "def make_step(devices): ... return step, (state, batch)"
"""What a function has to be, for its errors."""


_LISTED: Final = 8
_NEAR: Final = 0.7
"""How alike two names are, of which one may be meant by the other."""


class ProgramTrains(BaseException):
    """Ends a function that runs its step instead of returning it; `except Exception` keeps out."""


def main(directory: Path, home: str, name: str, devices: int) -> int:
    """Call the function, lower what it returns, and write the module or the error."""
    is_imported = False
    try:
        when_loaded("jax", lambda: watch_training(_refuse))
        make = _named_function(home, name)
        is_imported = True
        with absent_device():
            workload = _workload(_called(make, name, devices))
        module = directory / f"jax_ir0001_{workload.name}_compile.mlir"
        module.write_bytes(workload.program)
        _tell(directory, {"module": module.name})
    except CounterpointError as error:
        kind = "usage" if isinstance(error, UsageError) else "input"
        report = {"what": error.what, "why": error.why or "", "next": str(error.next or "")}
        _tell(directory, {**report, "kind": kind})
        return error.exit_code
    except ProgramTrains as trains:
        what = f"it runs {trains} here, and has to return it"
        if not is_imported:
            what = f"{home} runs {trains} when it is imported, before {name} can be called"
        why = (
            "the function is called with the number of devices, for the step and the shapes of its"
            f" arguments: {CONTRACT}"
        )
        _tell(directory, {"what": what, "why": why, "next": _command(home), "kind": "usage"})
        return UsageError.exit_code
    except Exception as error:  # noqa: BLE001  the user's code
        if isinstance(error, ValueError) and (place := _raised_at(error, home)):
            _tell(directory, {"what": str(error), "why": place, "kind": "input"})
        else:
            _show(error)
        return 1
    return 0


def _named_function(home: str, name: str) -> Callable[..., Made]:
    module = _module(home)
    function = getattr(module, name, None)
    if callable(function):
        return cast("Callable[..., Made]", function)
    own = getattr(module, "__name__", None)  # excludes functions that it imports
    functions = {
        function_name: value
        for function_name, value in vars(module).items()
        if (inspect.isfunction(value) or _is_jitted(value)) and value.__module__ == own
    }
    makers = [name for name, value in functions.items() if _makes(name, value)]
    near = get_close_matches(name, makers, 1, _NEAR)
    raise UsageError(
        f"it has no function {name}",
        why=f"it has {some([*functions], _LISTED)}" if functions else "it has no functions",
        next=f"{home}:{near[0]}" if near else f"name one that makes the step: {CONTRACT}",
    )


def _makes(name: str, function: object) -> bool:
    return not name.startswith("_") and not _is_jitted(function)


def _is_jitted(value: object) -> bool:
    return callable(value) and hasattr(value, "trace") and hasattr(value, "lower")


def _module(home: str) -> object:
    if not home.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return _imported(home)
    path = Path(home).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{home} can't be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _imported(home: str) -> object:
    """Import a module by its name; a missing import inside it keeps its own error."""
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{home}.".startswith(f"{missing.name}."):
            raise
        raise UsageError(
            f"there is no module {missing.name}",
            why=f"it was searched in {Path.cwd()} and in the packages of {sys.executable}",
            next="name file.py:make_step, or a module that this Python can import",
        ) from None


def _called(make: Callable[..., Made], name: str, devices: int) -> Made:
    """Call the function with the number as its parameter `devices`, or else as its first.

    A parameter called `platform` is "gpu" or "tpu", as `jax.default_backend()` is there.
    """
    signature = inspect.signature(make)
    if _is_jitted(make):
        raise UsageError(
            f"it is a jitted function {name}{signature}: a step, and not what makes one",
            why="what is named is called with the number of devices, and returns the step and the"
            " shapes of its arguments",
            next=f"add to the file {CONTRACT.replace('step,', f'{name},')}",
        )
    parameters = signature.parameters
    named: dict[str, Any] = {"platform": target_platform()} if "platform" in parameters else {}
    args: tuple[int, ...] = ()
    if "devices" in parameters:
        named["devices"] = devices
    elif parameters.keys() - named:
        args = (devices,)
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        raise UsageError(
            f"it can't be called with the number of devices: {error}",
            why=f"it is {name}{signature}",
            next=f"name one that makes the step: {CONTRACT}",
        ) from None
    return make(*args, **named)


def _refuse(name: str) -> None:
    raise ProgramTrains(name)


def _command(home: str) -> str:
    """Return how to predict a program that trains when it is called."""
    program = home if home.endswith(".py") else f"-m {home}"
    return f"counterpoint predict --target 8xH100 -- python {program}"


def _workload(result: Made) -> Workload:
    if isinstance(result, Workload):
        return result
    parts: list[Any] = list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else []
    if not 2 <= len(parts) <= 3 or not callable(parts[0]):
        raise UsageError(
            f"it returns {type(cast('object', result)).__name__}, not a function with its"
            " arguments",
            next=CONTRACT,
        )
    fn, args, *rest = parts
    if not isinstance(args, (tuple, list)):
        raise UsageError(
            f"the arguments it returns are {type(args).__name__}, not a tuple", next=CONTRACT
        )
    named: Mapping[str, Any] = rest[0] if rest else {}
    return program(fn, *cast("Sequence[Any]", args), **named)


def _tell(directory: Path, outcome: dict[str, str]) -> None:
    (directory / OUTCOME).write_text(json.dumps(outcome), encoding="utf-8")


def _raised_at(error: ValueError, home: str) -> str | None:
    """Return where the user's file raises a ValueError itself: a traceback would add nothing."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if not (home.endswith(".py") and Path(last.filename) == Path(home).resolve()):
        return None
    refuses = (last.line or "").startswith("raise ")
    return f"{home}:{last.lineno} rejects it in {last.name}" if refuses and str(error) else None


def _show(error: BaseException) -> None:
    """Print the error as Python does, from the user's first line on."""
    trace = error.__traceback__
    error.__notes__ = [
        note for note in getattr(error, "__notes__", ()) if "JAX has removed" not in note
    ]
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace, chain=False)


if __name__ == "__main__":
    _directory, _home, _name, _devices = sys.argv[1:]
    sys.argv = [_home]  # the user's file must not see our command line
    sys.exit(main(Path(_directory), _home, _name, int(_devices)))
