"""Variables that a command line passes to its program, and its numbers of processes and GPUs.

`env NAME=value`, `srun --export`, `mpirun -x`, `docker run -e`, `bazel test --test_env`, and
MaxText's own argument for compiler options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.parse.flag_values import (
    Assignment,
    ValueSource,
    is_foreign_name,
    may_set,
    read_flags,
)
from counterpoint.flags.parse.shell_state import Numbers, ShellState
from counterpoint.flags.parse.traced import HOLE, TracedText
from counterpoint.flags.parsed import IssueKind
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, Layout

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_SLURM: Final = ("srun", "sbatch", "salloc")
_MPI: Final = ("mpirun", "mpiexec", "orterun", "prterun")
_SHELLS: Final = ("bash", "sh", "zsh", "dash", "ksh")
_PASS_ON: Final = {
    **dict.fromkeys(_MPI, ("-x", "--env", "-genv")),
    **dict.fromkeys(
        ("docker", "podman", "singularity", "apptainer", "enroot", "kubectl"), ("-e", "--env")
    ),
    **dict.fromkeys(("bazel", "bazelisk", "blaze"), ("--test_env", "--action_env")),
}
"""The options by which a launcher passes variables on."""
_MAXTEXT: Final = "compile_xla_flags="
HARMLESS_COMMANDS: Final = frozenset(
    (
        *("echo", "printf", "cd", "pushd", "popd", "mkdir", "rm", "cp", "mv"),
        *("ls", "cat", "date", "shift", "set", "shopt", "trap", "exit", "return"),
        *("true", "false", ":", "sleep", "which", "type", "command", "ulimit", "umask", "module"),
        *("chmod", "ln", "touch", "tee", "grep", "sed", "awk", "pip", "pip3", "uv", "git", "wget"),
        *("curl", "tar", "nvidia-smi", "hostname", "ldconfig", "alias", "scontrol", "kill"),
        *("basename", "dirname", "break", "continue", "umount", "mount", "apt-get"),
    )
)
"""Commands that compute nothing on a GPU, so that flags set after them are still in time."""

_SHORT: Final = {"-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-G": "gpus"}
_MPI_NAMES: Final = {
    **dict.fromkeys(("-np", "-n", "--np", "-c"), "ntasks"),
    **dict.fromkeys(("-npernode", "--npernode", "-N", "-ppn", "--ppn"), "ntasks-per-node"),
}
_PER_NODE: Final = re.compile(r"ppr:(\d+):node")
_COUNTS: Final = (
    *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"),
    *("gpus", "gpus-per-node", "gpus-per-task", "gres"),
)


@dataclass(slots=True)
class LaunchCommand:
    """One command, whose words are read into its script; `left` may set something but is unread."""

    state: ShellState
    words: Sequence[tuple[TracedText, int]]
    texts: Sequence[str]
    scripts: list[tuple[TracedText, int]] = field(default_factory=list[tuple[TracedText, int]])
    left: list[str] = field(default_factory=list[str])
    _taken: set[int] = field(default_factory=set[int])  # words that are read

    def read(self) -> None:
        """Process what the command's own words set; the scripts in them go to `scripts`."""
        for index, text in enumerate(self.texts):
            self._word(text.rpartition("/")[2], text, index)
        self.left += (
            text
            for index, text in enumerate(self.texts)
            if index not in self._taken and may_set(text, colon=False)
        )

    def _word(self, name: str, text: str, index: int) -> None:
        behind = range(index + 1, len(self.words))
        if name in (*_SLURM, *_PASS_ON) or name == "env":
            self.state.budget.spend_on(10 * len(behind), self.words[0][1])
        if name == "env" and (index == 0 or self.texts[index - 1] not in HARMLESS_COMMANDS):
            self._env(behind)
        elif name in _SLURM:
            self.state.numbers += slurm_numbers(self.texts[index + 1 :])
            self._export(behind)
        elif name in _PASS_ON:
            if name in _MPI:
                self.state.numbers += _mpi_numbers(self.texts[index + 1 :])
            self._options(behind, name)
        elif name in _SHELLS:
            self._shell(index)
        elif text.startswith(_MAXTEXT):
            self._maxtext(index)

    def _give(self, index: int, name: str, value: TracedText, via: str) -> None:
        self._taken.add(index)
        self.state.give(Assignment(name, value, via, self.words[index][1]))

    def _shell(self, index: int) -> None:
        for at in range(index + 1, min(index + 4, len(self.texts) - 1)):
            if re.fullmatch(r"-[a-z]*c", self.texts[at]):
                self._taken.add(at + 1)
                self.scripts.append(self.words[at + 1])
                return

    def _env(self, behind: range) -> None:
        """Process `env -u NAME NAME=value ...`, up to the program."""
        skip = False
        for index in behind:
            value, _ = self.words[index]
            name, equals, _ = value.text.partition("=")
            if skip or value.text.startswith("-"):
                skip = value.text in ("-u", "--unset", "-C")
            elif HOLE in name:
                self.left.append(value.shown)
            elif not equals:
                return
            elif not is_foreign_name(name):  # an assignment for `env`, whatever the name
                self._give(index, name, value.cut(len(name) + 1), "env")

    def _options(self, behind: range, via: str) -> None:
        """Process `-e NAME=value`, `--env=NAME=value`, `-x NAME=value`."""
        options, before = _PASS_ON[via], ""
        for index in behind:
            value, _ = self.words[index]
            option, _, rest = value.text.partition("=")
            if before in options and (match := _ASSIGNMENT.match(value.text)):
                self._give(index, match[1], value.cut(match.end()), f"{via} {before}")
            elif option in options and (match := _ASSIGNMENT.match(rest)):
                start = len(option) + 1 + match.end()
                self._give(index, match[1], value.cut(start), f"{via} {option}")
            before = value.text

    def _export(self, behind: range) -> None:
        """Process Slurm's `--export=ALL,NAME=value`; without ALL nothing else is passed on."""
        for index in behind:
            value, line = self.words[index]
            option, equals, rest = value.text.partition("=")
            if option != "--export" or not equals:
                continue
            at, items = len(option) + 1, rest.split(",")
            for item in items:
                if match := _ASSIGNMENT.match(item):
                    inner = value.cut(at + match.end(), at + len(item))
                    self._give(index, match[1], inner, "srun --export")
                elif item and (item.startswith("-") or not ("=" in item or item.isidentifier())):
                    why = "Slurm ends a variable at the comma; what follows is lost"
                    self.state.issue(IssueKind.STRAY, "XLA_FLAGS", item, why, line)
                at += len(item) + 1
            if "ALL" not in items:
                self._dropped(value.shown, items, line)

    def _dropped(self, shown: str, items: list[str], line: int) -> None:
        """Report exported flags that such an option does not pass on."""
        exported = {item.partition("=")[0] for item in items}
        for name in FLAG_VARIABLES:
            at = self.state.assigned_at.get(name)
            if at and name in self.state.exported and name not in exported:
                why = f"without ALL, srun does not pass on the export of line {at.line}"
                suggestion = shown.replace("--export=", "--export=ALL,").replace(",NONE", "")
                self.state.issue(IssueKind.OVERWRITTEN, name, shown, why, line, suggestion)

    def _maxtext(self, index: int) -> None:
        channel, via = Channel.COMPILER_OPTIONS, "MaxText compile_xla_flags"
        value, _ = self.words[index]
        found = read_flags(value.cut(len(_MAXTEXT)), ValueSource(self.state.where, channel, via))
        self.state.options += found.given
        self.state.issues += found.issues


def slurm_numbers(words: Iterable[str]) -> Numbers:
    """Return the counts among the words of `#SBATCH` or `srun`."""
    return _numbers(list(words), _SHORT)


def _mpi_numbers(words: Sequence[str]) -> Numbers:
    per_node = [
        ("ntasks-per-node", int(match[1])) for match in map(_PER_NODE.match, words) if match
    ]
    return (*_numbers(list(words), _MPI_NAMES), *per_node)


def layout_of(numbers: Numbers) -> Layout | None:
    """Return the layout that the counts give; None if there are none."""
    counts = dict(numbers)
    hosts, tasks = counts.get("nodes"), counts.get("ntasks")
    per_host = counts.get("ntasks-per-node")
    if per_host is None and tasks and hosts and tasks % hosts == 0:
        per_host = tasks // hosts
    if hosts is None and tasks and per_host and tasks % per_host == 0:
        hosts = tasks // per_host
    layout = Layout(
        hosts=hosts,
        processes_per_host=per_host,
        gpus_per_process=_gpus(counts, hosts, per_host),
        cpus_per_process=counts.get("cpus-per-task"),
    )
    return None if layout == Layout() else layout


def _gpus(counts: dict[str, int], hosts: int | None, per_host: int | None) -> int | None:
    if "gpus-per-task" in counts:
        return counts["gpus-per-task"]
    on_host = counts.get("gpus-per-node")
    if on_host is None and hosts and counts.get("gpus", 0) % hosts == 0:
        on_host = counts.get("gpus", 0) // hosts or None
    if on_host and per_host and on_host % per_host == 0:
        return on_host // per_host
    return None


def _numbers(words: list[str], short: dict[str, str]) -> Numbers:
    found: list[tuple[str, int]] = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if word[:2] in short and word[2:].isdigit():
            name, value = short[word[:2]], word[2:]
        elif name in short or name.startswith("--"):
            name, value = short.get(name, name).removeprefix("--"), value if equals else following
        else:
            continue
        number = _number(name, value)
        if number is not None:
            found.append(("gpus-per-node" if name == "gres" else name, number))
    return tuple(found)


def _number(name: str, value: str) -> int | None:
    """Parse the count in `8`, `2-2`, `gpu:8` or `gpu:h100:8`; None for a range or other option."""
    if name not in _COUNTS or (name == "gres" and "gpu" not in value):
        return None
    low, _, high = value.partition(",")[0].rpartition(":")[2].partition("-")
    if not low.isdecimal() or (high and high != low):
        return None
    return int(low)
