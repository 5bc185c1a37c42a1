"""What a command line hands to the program it starts: `env NAME=value`, srun, mpirun, docker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.flag_words import Variable, read_flags
from counterpoint.flags.sources.launcher import (
    MPI,
    SLURM,
    mpi_options,
    slurm_options,
    together,
)
from counterpoint.flags.sources.state import State
from counterpoint.flags.sources.traced import HOLE, Traced
from counterpoint.flags.sources.variables import FLAGS, Assigned, of_others
from counterpoint.flags.written import Place, Slip, SlipKind

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=")
_SHELLS: Final = ("bash", "sh", "zsh", "dash", "ksh")
_CONTAINERS: Final = ("docker", "podman", "singularity", "apptainer", "enroot", "kubectl")
_BAZEL: Final = ("bazel", "bazelisk", "blaze")
_SHOWN: Final = 40
_MAXTEXT: Final = "compile_xla_flags="
QUIET: Final = frozenset(
    (
        *("echo", "printf", "cd", "pushd", "popd", "mkdir", "rm", "cp", "mv"),
        *("ls", "cat", "date", "source", ".", "eval", "read", "shift", "set"),
        *("shopt", "trap", "exit", "return", "true", "false", ":", "sleep", "which"),
        *("type", "command", "ulimit", "umask", "module", "chmod", "ln", "touch", "tee"),
        *("grep", "sed", "awk", "pip", "pip3", "uv", "git", "wget", "curl"),
        *("tar", "nvidia-smi", "hostname", "ldconfig", "alias", "scontrol", "wait", "kill", "test"),
        *("basename", "dirname"),
    )
)
"""Commands that compute nothing on a GPU: flags set behind them come in time."""

Value = tuple[Traced, int]  # a word and its line


@dataclass(slots=True)
class Commands:
    """Reads the words of a command into the state of its script."""

    state: State

    def start(
        self, words: list[Value], overlay: list[tuple[str, Traced, int]]
    ) -> Iterator[tuple[Traced, int]]:
        """Take in what the command's own words set; scripts in its words are handed back."""
        texts = [value.shown for value, _ in words]
        name = texts[0].rpartition("/")[2]
        for variable, value, line in overlay if name not in QUIET else ():
            self.state.give_to_command(Assigned(variable, value, "", line))
        for index, text in enumerate(texts):
            yield from self._word(text.rpartition("/")[2], index, words, texts)
        self._maxtext(words)
        if name not in QUIET:
            self.state.programs += 1

    def _word(
        self, text: str, index: int, words: list[Value], texts: list[str]
    ) -> Iterator[tuple[Traced, int]]:
        if text == "env" and (index == 0 or texts[index - 1].rpartition("/")[2] not in QUIET):
            self._spend(words[index:])
            self._env(words[index + 1 :])
        elif text in SLURM:
            self._spend(words[index:])
            asked = slurm_options(texts[index + 1 :])
            self.state.asked = together(self.state.asked, asked)
            self._export(words[index + 1 :])
        elif text in MPI:
            self._spend(words[index:])
            self.state.asked = together(self.state.asked, mpi_options(texts[index + 1 :]))
            self._behind(words[index + 1 :], ("-x", "--env", "-genv"), text)
        elif text in _CONTAINERS:
            self._spend(words[index:])
            self._behind(words[index + 1 :], ("-e", "--env"), text)
        elif text in _BAZEL:
            self._spend(words[index:])
            self._behind(words[index + 1 :], ("--test_env", "--action_env"), text)
        elif text in _SHELLS:
            for at in range(index + 1, min(index + 4, len(texts) - 1)):
                if re.fullmatch(r"-[a-z]*c", texts[at]):
                    yield words[at + 1]
                    return

    def _spend(self, words: list[Value]) -> None:
        """A launcher's options are looked for in all words behind it, those of another, too."""
        self.state.values.spend_on(10 * len(words), words[0][1])

    def _env(self, words: list[Value]) -> None:
        """`env -u NAME NAME=value ...`, up to the program."""
        skip = False
        for value, line in words:
            match = _ASSIGNMENT.match(value.text)
            if skip or value.text.startswith("-"):
                skip = value.text in ("-u", "--unset", "-C")
            elif match:
                self._give(match[1], value.cut(match.end()), line, "env")
            elif HOLE in (name := value.text.partition("=")[0]):
                self.state.leave_unread(f"{value.shown[:_SHOWN]} (line {line})")
            elif name != value.text:  # an assignment for `env`, whatever the name
                if not of_others(name):
                    self._give(name, value.cut(len(name) + 1), line, "env")
            else:
                return

    def _behind(self, words: list[Value], options: tuple[str, ...], via: str) -> None:
        """`-e NAME=value`, `--env=NAME=value`, `-x NAME=value`."""
        before = ""
        for value, line in words:
            text = value.text
            option, _, rest = text.partition("=")
            if before in options and (match := _ASSIGNMENT.match(text)):
                self._give(match[1], value.cut(match.end()), line, f"{via} {before}")
            elif option in options and (match := _ASSIGNMENT.match(rest)):
                start = len(option) + 1 + match.end()
                self._give(match[1], value.cut(start), line, f"{via} {option}")
            before = text

    def _export(self, words: list[Value]) -> None:
        """Slurm's `--export=ALL,NAME=value`: without ALL nothing else goes along."""
        for value, line in words:
            option, equals, rest = value.text.partition("=")
            if option != "--export" or not equals:
                continue
            at = len(option) + 1
            items: list[str] = rest.split(",")
            for item in items:
                if match := _ASSIGNMENT.match(item):
                    end = at + len(item)
                    self._give(match[1], value.cut(at + match.end(), end), line, "srun --export")
                elif item.startswith("-") or ("=" not in item and not item.isidentifier()):
                    self._cut_off(item, line)
                at += len(item) + 1
            if "ALL" not in items:
                self._dropped(value.shown, items, line)

    def _cut_off(self, item: str, line: int) -> None:
        if not item:
            return
        self.state.slips.append(
            Slip(
                kind=SlipKind.STRAY,
                channel=Channel.XLA_FLAGS,
                text=item,
                why="Slurm ends a variable at the comma: what follows is lost",
                place=Place(self.state.where, line or None),
            )
        )

    def _dropped(self, shown: str, items: list[str], line: int) -> None:
        """Exported flags that such an option keeps back."""
        kept = {item.partition("=")[0] for item in items}
        for name in FLAGS:
            if name in self.state.exported and name not in kept:
                at = self.state.sets[name].line
                self.state.slips.append(
                    Slip(
                        kind=SlipKind.OVERWRITTEN,
                        channel=FLAGS[name],
                        text=shown,
                        why=f"without ALL, srun does not pass on what line {at} has exported",
                        place=Place(self.state.where, line or None),
                        mend=shown.replace("--export=", "--export=ALL,").replace(",NONE", ""),
                    )
                )

    def _give(self, name: str, value: Traced, line: int, via: str) -> None:
        self.state.give_to_command(Assigned(name, value, via, line))

    def _maxtext(self, words: list[Value]) -> None:
        """MaxText's own argument for compiler options."""
        for value, _ in words:
            if value.text.startswith(_MAXTEXT):
                variable = Variable(
                    self.state.where, Channel.COMPILER_OPTIONS, "MaxText compile_xla_flags"
                )
                found = read_flags(value.cut(len(_MAXTEXT)), variable)
                self.state.options += found.given
                self.state.slips += found.slips
