"""What a Python program may set and nobody reads here: it is listed, and no verdict holds for it.

load_dotenv(), runpy.run_path("x.py"), exec(...)      other files and texts
os.environ.update(json.load(f)), os.environ[k] = v    known when the program runs
subprocess.run(command, env=env)                      what a program that is started finds
utils.set_xla_flags()                                 by its name, where it is defined elsewhere
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from counterpoint.flags.sources.python_values import (
    Entries,
    Evaluator,
    Items,
    Value,
    dotted,
    stands_for_environ,
)
from counterpoint.flags.sources.traced import Traced
from counterpoint.flags.sources.variables import FLAGS, may_set

_LOADS: Final = re.compile(
    r"(?:.+\.)?(?:load_dotenv|read_dotenv|read_env|run_path|run_module)|exec|execfile"
)
_STARTS: Final = re.compile(
    r"(?:(?:.+\.)?subprocess\.|sp\.)?(?:run|call)|os\.(?:system|popen|posix_spawnp?)"
    r"|(?:.+\.)?(?:Popen|check_call|check_output|getoutput|create_subprocess_(?:exec|shell))"
)
_REPLACES: Final = re.compile(r"os\.(?:exec|spawn)[lv]p?e")
_SETS_BY_NAME: Final = re.compile(
    r"\w*xla_?(?:flags|env\w*|options)"
    r"|(?:set|setup|load|apply|configure|update|export)_"
    r"(?:(?:\w+_)?(?:env|environ\w*)(?:_vars)?|(?:(?:jax|gpu|tpu|libtpu)_)?flags)"
)
_SETTERS: Final = ("setdefault", "putenv", "setenv", "__setitem__")
_TAKES_OUT: Final = ("pop", "unsetenv", "delenv")
_HANDED: Final = ("env", "runtime_env", "env_vars", "compiler_options", "xla_compiler_options")


def sets_unread(node: ast.Call, evaluator: Evaluator) -> bool:
    """Whether a call may set something that is not known from the source."""
    name = dotted(node.func)
    if _LOADS.fullmatch(name):
        return True
    return (
        _on_environ(node, name, evaluator)
        or _hands_over(node, name, evaluator)
        or (bool(_STARTS.fullmatch(name)) and any(map(_sets, _texts(node, evaluator))))
    )


def sets_by_its_name(node: ast.Call, defined: frozenset[str]) -> bool:
    """A call of a function from elsewhere that tells by its name what it does."""
    last = dotted(node.func).rpartition(".")[2]
    return bool(_SETS_BY_NAME.fullmatch(last)) and last not in defined


def is_environ_like(node: ast.expr, evaluator: Evaluator) -> bool:
    """Whether it is the environment, a copy of it, or another name for one of them."""
    if dotted(node).rpartition(".")[2] in ("environ", "environb"):
        return True
    return isinstance(node, ast.Name | ast.Call) and stands_for_environ(evaluator.value(node))


def is_open(value: Value) -> bool:
    """Whether more may be in it than is known."""
    if isinstance(value, Entries):
        return value.open
    if isinstance(value, Traced) and value.shown == "None":
        return False
    return not stands_for_environ(value)


def opens(target: ast.expr, evaluator: Evaluator) -> None:
    """Something not known is put into a dict that has a name."""
    found = evaluator.names.get(target.id) if isinstance(target, ast.Name) else None
    if isinstance(found, Entries):
        found.open = True


def takes_out(node: ast.Call, evaluator: Evaluator) -> str | None:
    """The variable that a call takes out of the environment."""
    function = node.func
    if not isinstance(function, ast.Attribute) or function.attr not in _TAKES_OUT or not node.args:
        return None
    own = dotted(function) == "os.unsetenv" or function.attr == "delenv"
    name = evaluator.value(node.args[0])
    if not isinstance(name, Traced) or not (own or is_environ_like(function.value, evaluator)):
        return None
    return name.text


def _on_environ(node: ast.Call, name: str, evaluator: Evaluator) -> bool:
    """`os.environ.update(unknown)`, `os.environ.setdefault(unknown, ...)`."""
    function = node.func
    if not isinstance(function, ast.Attribute):
        return False
    environ = is_environ_like(function.value, evaluator)
    if function.attr in ("update", "__ior__"):
        wholes = [*node.args, *(it.value for it in node.keywords if it.arg is None)]
        unknown = any(is_open(evaluator.value(it)) for it in wholes)
        if unknown and not environ:
            opens(function.value, evaluator)
        return unknown and environ
    if function.attr in _SETTERS and len(node.args) > 1 and (environ or name == "os.putenv"):
        key = evaluator.value(node.args[0])
        return not isinstance(key, Traced) or not key.known
    return function.attr == "clear" and environ


def _hands_over(node: ast.Call, name: str, evaluator: Evaluator) -> bool:
    """`env=unknown` of a program that is started, `runtime_env=` of Ray, `compiler_options=`."""
    if _REPLACES.fullmatch(name) and node.args:
        return is_open(evaluator.value(node.args[-1]))
    given = {it.arg: it.value for it in node.keywords if it.arg in _HANDED}
    if not _STARTS.fullmatch(name):
        given.pop("env", None)  # of an environment to act in, say
    return any(is_open(evaluator.value(it)) for it in given.values())


def _texts(node: ast.Call, evaluator: Evaluator) -> Iterator[str]:
    """The words of a command."""
    for value in map(evaluator.value, node.args[:1]):
        items = value.items if isinstance(value, Items) else [value]
        yield from (it.shown for it in items if isinstance(it, Traced))


def _sets(text: str) -> bool:
    return may_set(text) or any(f"{name}=" in text for name in FLAGS)
