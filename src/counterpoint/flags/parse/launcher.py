"""Variables that a command line passes to its program, and its numbers of processes and GPUs.

`env NAME=value`, `srun --export`, `mpirun -x`, `docker run -e`, `bazel test --test_env`, and
MaxText's own argument for compiler options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from counterpoint.flags.catalogue.variable import meant_option
from counterpoint.flags.parse.flag_values import is_foreign_name
from counterpoint.flags.parse.traced import HOLE, TracedText
from counterpoint.flags.settings import Channel, Layout, is_setting

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_SLURM: Final = ("srun", "sbatch", "salloc")
_MPI: Final = ("mpirun", "mpiexec", "orterun", "prterun")
_SHELLS: Final = ("bash", "sh", "zsh", "dash", "ksh")
_LAUNCHERS: Final = (
    *("env", *_SLURM, *_MPI, "docker", "podman", "singularity", "apptainer", "enroot", "kubectl"),
    *("bazel", "bazelisk", "blaze", "xpk", "gcloud"),
)
_RUNS: Final = re.compile(r"-[a-z]*c")
_NEXT: Final = re.compile(r",(?=[A-Za-z_]\w*=)")
"""Where the next variable begins in `--set-env-vars=A=1,B=2`."""
_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*=")
_SET: Final = re.compile(r"(?:^|[\s;&|(=])(?:export\s+|env\s+)?([A-Z][A-Z0-9_]*)\+?=", re.MULTILINE)
_PASS_ON: Final = re.compile(r"-x|-e|-env|-genv|--?(?:[a-z]+[-_])*envs?(?:[-_]vars?)?")
"""Options of launchers that pass a variable on: `-x`, `-e`, `--env`, `--test_env`."""
MAXTEXT: Final = "compile_xla_flags"
_HARMLESS: Final = frozenset(
    (
        *("echo", "printf", "cd", "pushd", "popd", "mkdir", "rm", "cp", "mv"),
        *("ls", "cat", "date", "shift", "set", "shopt", "trap", "exit", "return", "[[", "[", "]]"),
        *("true", "false", ":", "sleep", "which", "type", "command", "ulimit", "umask", "module"),
        *("chmod", "ln", "touch", "tee", "grep", "sed", "awk", "pip", "pip3", "uv", "git", "wget"),
        *("curl", "tar", "nvidia-smi", "hostname", "ldconfig", "alias", "scontrol", "kill", "test"),
        *("basename", "dirname", "break", "continue", "umount", "mount", "apt-get"),
    )
)
"""Commands that compute nothing on a GPU, so that flags set after them are still in time."""
_SBATCH: Final = re.compile(r"^#SBATCH[ \t]+([^\n]*)", re.MULTILINE)
_SHORT: Final = {"-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-G": "gpus"}
_MPI_NAMES: Final = {
    **dict.fromkeys(("-np", "-n", "--np", "-c"), "ntasks"),
    **dict.fromkeys(("-npernode", "--npernode", "-N", "-ppn", "--ppn"), "ntasks-per-node"),
}
_PER_NODE: Final = re.compile(r"ppr:(\d{1,9}):node")
TELLING: Final = re.compile(r"(?:^|[\s/])nsys\s|--trainer\.\w")
"""What matters in a command that sets no variables: a profiler, and a trainer's options."""
_RECORDS: Final = frozenset({"profile", "launch", "start"})
_COUNTS: Final = (
    *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"),
    *("gpus", "gpus-per-node", "gpus-per-task", "gres"),
)

Numbers = tuple[tuple[str, int], ...]
"""Counts by the names of Slurm's long options; the last value of a name counts."""


@dataclass(frozen=True, slots=True)
class PassedWord:
    """The setting that one word of a command passes on: to the program, or elsewhere.

    `via` is what passes it on. Without a name, the value is that of a `channel`, or the variable
    that `-x` exports, or a whole `srun --export`.
    """

    at: int
    value: TracedText
    via: str
    name: str = ""
    channel: Channel | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """The words of one command."""

    words: Sequence[tuple[TracedText, int]]
    texts: Sequence[str]

    def passed(self) -> Iterator[PassedWord]:
        """Yield what its words pass on, in order."""
        launcher = self.texts[0].rpartition("/")[2]
        for index, text in enumerate(self.texts):
            name = text.rpartition("/")[2]
            launcher = name if name in _LAUNCHERS else launcher
            if name == "env" and (index == 0 or self.texts[index - 1] not in _HARMLESS):
                yield from self._env(index + 1)
            elif text.startswith(f"{MAXTEXT}="):
                value = self.words[index][0].cut(len(MAXTEXT) + 1)
                yield PassedWord(
                    index, value, f"MaxText {MAXTEXT}", channel=Channel.COMPILER_OPTIONS
                )
            elif text.startswith("--export="):
                yield from self._exports(index)
            elif text.startswith("-"):
                yield from self._option(index, launcher)

    @property
    def work(self) -> int:
        """The cost in units of a budget: each launcher looks at all words after it."""
        names = [text.rpartition("/")[2] for text in self.texts]
        return sum(10 * (len(names) - at) for at, name in enumerate(names) if name in _LAUNCHERS)

    @property
    def records(self) -> bool:
        """True if Nsight Systems records the program: `nsys profile`, `launch` or `start`."""
        return any(
            text.rpartition("/")[2] == "nsys" and _RECORDS.intersection(self.texts[at + 1 : at + 2])
            for at, text in enumerate(self.texts)
        )

    @property
    def numbers(self) -> Numbers:
        """The counts that launchers among its words are given."""
        counts: Numbers = ()
        for index, text in enumerate(self.texts):
            name, behind = text.rpartition("/")[2], self.texts[index + 1 :]
            if name in _SLURM:
                counts += _numbers(behind, _SHORT)
            elif name in _MPI:
                per_node = (match for match in map(_PER_NODE.match, behind) if match)
                counts += _numbers(behind, _MPI_NAMES)
                counts += tuple(("ntasks-per-node", int(match[1])) for match in per_node)
        return counts

    def trainer_options(self) -> Iterator[tuple[Channel, str, TracedText, int]]:
        """Yield the trainer's own options that are known here, or nearly: `--name value`."""
        for index, text in enumerate(self.texts):
            name, equals, _ = text.removeprefix("--").partition("=")
            if not text.startswith("--") or meant_option(name) is None:
                continue
            word, line = self.words[index]
            if equals:
                yield Channel.TRAINER, name, word.cut(len(name) + 3), line
            elif index + 1 < len(self.words):
                yield Channel.TRAINER, name, self.words[index + 1][0], line

    def scripts(self, taken: set[int]) -> Iterator[tuple[TracedText, int, bool]]:
        """Yield the words that are scripts, with their lines, and whether they inherit variables.

        An option's script is the text after its equals sign. `taken`: words that pass on variables.
        """
        shell = False
        for index, (value, line) in enumerate(self.words):
            text = value.text
            option = _OPTION.match(text)
            script = value.cut(option.end()) if option else value
            runs = shell and bool(_RUNS.fullmatch(self.texts[index - 1]))
            if index not in taken and (runs or is_script(script.text)):
                yield script, line, runs
            shell = shell or text.rpartition("/")[2] in _SHELLS

    def _env(self, start: int) -> Iterator[PassedWord]:
        """Process `env -u NAME NAME=value ...`, up to the program."""
        skip = False
        for index in range(start, len(self.words)):
            value, _ = self.words[index]
            name, equals, _ = value.text.partition("=")
            if skip or value.text.startswith("-"):
                skip = value.text in ("-u", "--unset", "-C")
            elif HOLE in name:
                yield PassedWord(index, value, "env")
            elif not equals:
                return
            elif not is_foreign_name(name):  # an assignment for `env`, whatever the name
                yield PassedWord(index, value.cut(len(name) + 1), "env", name)

    def _option(self, index: int, launcher: str) -> Iterator[PassedWord]:
        """Process `-e NAME=value`, `--env=NAME=value`, `-x NAME=value`, `-x NAME`."""
        option, equals, _ = self.texts[index].partition("=")
        if not _PASS_ON.fullmatch(option):
            return
        at = index if equals else index + 1
        if at >= len(self.words):
            return
        start = len(option) + 1 if equals else 0
        value = self.words[at][0].cut(start)
        via = f"{launcher} {option}"
        starts = [match.end() for match in _NEXT.finditer(value.text) if "-" in option[2:]]
        for begin, end in pairwise([0, *starts, len(value.text) + 1]):
            if match := _ASSIGNMENT.match(value.text, begin):
                yield PassedWord(at, value.cut(match.end(), end - 1), via, match[1])
        if option == "-x" and launcher in _MPI and is_setting(value.text):
            yield PassedWord(at, value, option)

    def _exports(self, index: int) -> Iterator[PassedWord]:
        """Process Slurm's `--export=ALL,NAME=value`."""
        value = self.words[index][0]
        at = len("--export=")
        for item in value.text[at:].split(","):
            if match := _ASSIGNMENT.match(item):
                inner = value.cut(at + match.end(), at + len(item))
                yield PassedWord(index, inner, "srun --export", match[1])
            at += len(item) + 1
        yield PassedWord(index, value, "srun --export")


def is_script(text: str) -> bool:
    """Return whether a text sets variables for a shell, and is more than one word."""
    several = any(character.isspace() or character == ";" for character in text.strip())
    return several and any(is_setting(match[1]) for match in _SET.finditer(text))


def is_harmless(texts: Sequence[str]) -> bool:
    """Return whether a command computes nothing; `uv run` and `command` start another program."""
    name = texts[0].rpartition("/")[2]
    if name == "uv" and "run" in texts[1:]:
        return False
    if name == "command" and len(texts) > 1 and not texts[1].startswith("-"):
        return is_harmless(texts[1:])
    return name in _HARMLESS


def slurm_numbers(text: str) -> Numbers:
    """Return the counts of a script's lines `#SBATCH`."""
    counts: Numbers = ()
    for match in _SBATCH.finditer(text):
        try:
            words = shlex.split(match[1], comments=True)
        except ValueError:
            words = match[1].split()
        counts += _numbers(words, _SHORT)
    return counts


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
    return on_host // per_host if on_host and per_host and on_host % per_host == 0 else None


def _numbers(words: Sequence[str], short: dict[str, str]) -> Numbers:
    counts: list[tuple[str, int]] = []
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
            counts.append(("gpus-per-node" if name == "gres" else name, number))
    return tuple(counts)


_DIGITS: Final = 9  # of a count of nodes or processes


def _number(name: str, value: str) -> int | None:
    """Parse the count in `8`, `2-2`, `gpu:8` or `gpu:h100:8`; None for a range or other option."""
    if name not in _COUNTS or (name == "gres" and "gpu" not in value):
        return None
    low, _, high = value.partition(",")[0].rpartition(":")[2].partition("-")
    if not low.isdecimal() or len(low) > _DIGITS or (high and high != low):
        return None
    return int(low)
