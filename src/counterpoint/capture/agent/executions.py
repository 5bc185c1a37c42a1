"""Counts executions of compiled functions, for programs that do not say where a step begins.

From its second call on a jitted function is C++, and nothing public tells of its calls. What JAX
checks for NaNs with is called after each, though: a hook that takes the place of that check while
the profile window waits or is open, and leaves it to the check where the program has switched that
on. It costs a fraction of a microsecond. The call that compiles does not come by here, so each
compile counts as an execution.

The function that took longest to compile leads: its executions are the steps, as a reader of the
profile takes them. Functions of JAX itself (`jnp.add`, `random.split`) never lead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_GONE = 300  # executions of others, after which the leading one is taken to be over
_NAMELESS = "a program compiled ahead of time"
_JAX = ("jax.", "jax._src.")
_PMAP = "jax._src.pmap"


class Executions:
    """The executions of one process. `then`: called after each of the leading function."""

    def __init__(self, then: Callable[[str, int], None]) -> None:
        self._then = then
        self._hook: _Hook | None = None
        self._turns: dict[Any, int] = {}
        self._took: dict[str | None, float] = {}  # seconds of the longest compile, by name
        self._leading: Any = None
        self._others = 0
        self.total = 0  # of all functions

    @property
    def heaviest_s(self) -> float:
        """Seconds of the longest compile of all."""
        return max(self._took.values(), default=0.0)

    @property
    def leading(self) -> str | None:
        """The name of the function whose executions are the steps."""
        return None if self._leading is None else self._leading[0] or _NAMELESS

    @property
    def count(self) -> int:
        """How often the leading function was executed."""
        return self._turns.get(self._leading, 0)

    def count_of(self, name: str) -> int:
        """How often functions of this name were executed."""
        turns = [*self._turns.items()]  # another thread may execute something new meanwhile
        return sum(n for key, n in turns if (key[0] or _NAMELESS) == name)

    def listen(self) -> None:
        """Hear of executions from now on."""
        if self._hook is None:
            self._hook = _hook(self._executed)

    def leave(self) -> None:
        """Hear no more of them."""
        if self._hook is not None:
            self._hook.leave()
            self._hook = None

    def compiled(self, about: str | None, seconds: float, *, aot: bool) -> None:
        """A compile has ended; who leads is seen anew, among what runs from here on."""
        name = None if aot else _function(about)
        self._took[name] = max(seconds, self._took.get(name, 0.0))
        self._leading, self._others = None, 0
        for key in [*self._turns]:
            if key[0] == name and not aot:
                self._turns[key] += 1

    def _executed(self, function: Any, *_: object) -> None:  # noqa: ANN401
        name = getattr(function, "__name__", None)
        home = getattr(function, "__module__", None) if name else str(id(function))
        key = (name, home, _line(function))
        self.total += 1
        self._turns[key] = turn = self._turns.get(key, 1) + 1
        if key != self._leading and not self._takes_the_lead(name, home or ""):
            return
        self._leading, self._others = key, 0
        self._then(name or _NAMELESS, turn)

    def _takes_the_lead(self, name: str | None, home: str) -> bool:
        if home.startswith(_JAX) and home != _PMAP:
            return False
        if self._leading is None:
            return True
        self._others += 1
        lighter = self._took.get(name, 0.0) <= self._took.get(self._leading[0], 0.0)
        return self._others > _GONE or not lighter


def _line(function: Any) -> int | None:  # noqa: ANN401
    """Where it is written: two of one name, such as two lambdas, are two functions."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    code = getattr(getattr(function, "func", function), "__code__", None)  # of a partial, too
    return None if code is None else code.co_firstlineno


def _function(about: str | None) -> str | None:
    """`step`, of what JAX compiles as `jit(step)`."""
    return about.partition("(")[2].removesuffix(")") if about and "(" in about else about


class _Hook:
    """What was put into JAX, and how it comes out again."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], None], own: Any) -> None:  # noqa: ANN401
        self._get, self._put, self._own = get, put, own
        put(own)

    def leave(self) -> None:
        if self._get() is self._own:  # else the program has switched the check for NaNs on
            self._put(None)


def _hook(executed: Callable[..., None]) -> _Hook | None:
    """Put in, where this JAX has a place for it that nobody else has taken."""

    def heard(*given: object) -> None:
        try:
            executed(*given)
        except Exception:  # noqa: BLE001  it would be raised in the program's step
            hook.leave()

    state = getattr(sys.modules.get("jax._src.api"), "_post_hook_state", None)
    if state is not None:
        get, put = state.get_global, state.set_global
    else:  # with jaxlib 0.8.0
        jit = getattr(sys.modules.get("jax._src.lib"), "jax_jit", None)
        state = jit.global_state()  # type: ignore[union-attr]

        def get() -> Any:  # noqa: ANN401
            return state.post_hook

        def put(hook: Any) -> None:  # noqa: ANN401
            state.post_hook = hook

    if get() is not None:
        return None
    hook = _Hook(get, put, heard)
    return hook
