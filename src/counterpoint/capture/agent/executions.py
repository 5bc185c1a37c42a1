"""Counts executions of compiled functions, for programs that do not mark their steps.

From its second call on a jitted function is C++, and no public interface reports its calls. JAX's
check for NaNs is called after each, though: a hook replaces that check while the profile window
waits or is open, and yields to it if the program has switched the check on. It costs a fraction of
a microsecond. The call that compiles does not reach the hook, so each compile counts as an
execution.

The function that took longest to compile leads: the iterations of the loop that executes it are the
steps (`iterations`). Functions of JAX itself (`jnp.add`, `random.split`) never lead, and one that
returns none of what it takes, as an evaluation, does not if another returns weights: it trains.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .iterations import Iterations, arrays_of, size_of

_GONE = 300  # executions of others after which the leading one is considered finished
_RETURNED = 0.25  # of the bytes of its arguments, which a function that trains returns at least
_HEAVY = 0.01  # of the seconds of the longest compile, which that of a step takes at least
_NAMELESS = "a program compiled ahead of time"
_JAX = ("jax.", "jax._src.")
_PMAP = "jax._src.pmap"


class Executions:
    """The executions of one process. `then` is called where the leading function begins a step."""

    def __init__(self, then: Callable[[str, int], None]) -> None:
        self._then = then
        self._hook: _Hook | None = None
        self._turns: dict[Any, int] = {}
        self._took: dict[str | None, float] = {}  # seconds of the longest compile, by name
        self._leading: Any = None
        self._iterations: defaultdict[Any, Iterations] = defaultdict(Iterations)
        self._others = 0
        self._returns: dict[Any, bool] = {}  # whether a function returns much of what it takes
        self._spent: defaultdict[str, float] = defaultdict(float)  # seconds, by name
        self._last_s: float | None = None
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
        """Number of steps of the leading function that began."""
        iterations = self._iterations.get(self._leading)
        return 0 if iterations is None else 1 + iterations.count  # with the call that compiled

    def count_of(self, name: str) -> int:
        """Return the number of executions of functions of this name."""
        turns = [*self._turns.items()]  # another thread may execute something new concurrently
        return sum(n for key, n in turns if (key[0] or _NAMELESS) == name)

    def seconds_of(self, name: str) -> tuple[float, float]:
        """Return how long functions of this name ran in all, and how long one execution took.

        That is the time from any other execution to theirs, so it includes waiting for devices, but
        neither compiles nor what is done here after an execution, such as starting a profiler.
        """
        spent = self._spent.get(name, 0.0)
        return spent, spent / max(self.count_of(name) - 1, 1)

    def trains(self, name: str) -> bool:
        """Return whether a function of this name returns weights, or gradients, for the next."""
        return any(self._trains(key) for key in [*self._returns] if (key[0] or _NAMELESS) == name)

    def listen(self) -> None:
        """Start receiving executions."""
        if self._hook is None:
            self._hook = _Hook(self._executed)
        self._hook.enter()

    def leave(self) -> None:
        """Stop receiving executions."""
        if self._hook is not None:
            self._hook.leave()

    def compiled(self, about: str | None, seconds: float, *, aot: bool) -> None:
        """Handle the end of a compile.

        The leader is redetermined among the functions that run next, and among those that train if
        it does.
        """
        name = None if aot else _function(about)
        self._took[name] = max(seconds, self._took.get(name, 0.0))
        if self._trains(self._leading):
            self._others = _GONE
        else:
            self._leading = None
        self._last_s = time.monotonic()
        for key in [*self._turns]:
            if key[0] == name and not aot:
                self._turns[key] += 1
                self._iterations[key].count += 1
        if self._hook is not None:
            self._hook.reappear()

    def _executed(self, function: Any, *given: object) -> None:  # noqa: ANN401
        name = getattr(function, "__name__", None)
        home = getattr(function, "__module__", None) if name else str(id(function))
        key = (name, home, _line(function))
        self.total += 1
        self._turns[key] = self._turns.get(key, 1) + 1
        now_s = time.monotonic()
        self._spent[name or _NAMELESS] += now_s - (self._last_s or now_s)
        if key not in self._returns:
            self._returns[key] = _returned(given[:2], given[2:]) >= _RETURNED
        if key == self._leading or self._takes_the_lead(key, home or ""):
            self._leading, self._others = key, 0
            if self._iterations[key].call(given[:2]):
                self._then(name or _NAMELESS, self.count)
        self._last_s = time.monotonic()

    def _takes_the_lead(self, key: Any, home: str) -> bool:  # noqa: ANN401
        if home.startswith(_JAX) and home != _PMAP:
            return False
        if self._leading is None:
            self._others = 0
            return True
        self._others += 1
        trains = self._trains(key)
        if trains is not self._trains(self._leading):
            return trains
        lighter = self._took.get(key[0], 0.0) <= self._took.get(self._leading[0], 0.0)
        return self._others > _GONE or not lighter

    def _trains(self, key: Any) -> bool:  # noqa: ANN401
        """Return whether it returns weights or gradients, and is no helper, of a batch for one."""
        heavy_s = _HEAVY * self.heaviest_s
        return self._returns.get(key, False) and self._took.get(key[0], 0.0) >= heavy_s


def _returned(arguments: object, results: object) -> float:
    """Return the share of bytes of the arguments for which a result has the same shape."""
    taken, returned = (arrays_of(given) for given in (arguments, results))
    kinds = {(array.shape, array.dtype) for array in returned}
    same = {at for at, array in enumerate(taken) if (array.shape, array.dtype) in kinds}
    return size_of(taken, same) / max(size_of(taken, set(range(len(taken)))), 1)


def _line(function: Any) -> int | None:  # noqa: ANN401
    """Return its source line: two functions of one name, such as two lambdas, are distinct."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    code = getattr(getattr(function, "func", function), "__code__", None)  # also of a partial
    return None if code is None else code.co_firstlineno


def _function(about: str | None) -> str | None:
    """Return `step` for `jit(step)`, JAX's name of the compiled function."""
    return about.partition("(")[2].removesuffix(")") if about and "(" in about else about


class _Hook:
    """A function in the place of JAX's check for NaNs, and its installation and removal.

    If JAX keeps a value per thread, that value hides the one for all threads. `debug_nans(False)`,
    under which `jnp.var`, `jax.nn.relu` and the gradient of a `scan` are traced, leaves None there
    when it ends, so the hook must be installed in such a thread as well.
    """

    def __init__(self, executed: Callable[..., None]) -> None:
        self._executed = executed
        self._listens = False
        self._get, self._put = _for_all_threads()
        self._of_thread: Any = getattr(sys.modules.get("jax._src.api"), "_post_hook_state", None)
        self._follow_debug_nans()

    def enter(self) -> None:
        """Install the hook, unless the place is taken."""
        if self._get() is None:
            self._put(self._heard)
            self._listens = True
        self.reappear()

    def reappear(self) -> None:
        """Reinstall the hook in this thread, if JAX has left None there."""
        if self._listens and self._of_thread and self._of_thread.get_local() is None:
            self._of_thread.set_local(self._heard)

    def leave(self) -> None:
        """Remove the hook: now in this thread, in others when they next execute something."""
        self._listens = False
        if self._get() == self._heard:  # else the program has switched the check for NaNs on
            self._put(None)
        if self._of_thread and self._of_thread.get_local() == self._heard:
            self._of_thread.set_local(None)

    def _heard(self, *given: object) -> None:
        if not self._listens:
            self.leave()
            return
        try:
            self._executed(*given)
        except Exception:  # noqa: BLE001  it would be raised in the program's step
            self.leave()

    def _follow_debug_nans(self) -> None:
        """Reinstall the hook when `debug_nans(False)` ends, if it did not end in a compile."""
        state: Any = getattr(sys.modules.get("jax._src.config"), "debug_nans", None)
        original = getattr(state, "_update_thread_local_hook", None)
        if original is None:
            return

        def update(value: object) -> None:
            original(value)
            self.reappear()

        state._update_thread_local_hook = update  # noqa: SLF001


def _for_all_threads() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return functions that read and write the hook for all threads."""
    state = getattr(sys.modules.get("jax._src.api"), "_post_hook_state", None)
    if state is not None:
        return state.get_global, state.set_global
    jit = getattr(sys.modules.get("jax._src.lib"), "jax_jit", None)  # with jaxlib 0.8.0
    state = jit.global_state()  # type: ignore[union-attr]

    def put(hook: Any) -> None:  # noqa: ANN401
        state.post_hook = hook

    return lambda: state.post_hook, put
