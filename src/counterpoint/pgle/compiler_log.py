"""A compiler's log, which proves that a profile was used, or was not: per module and overall.

`Found profile for module` is no proof: XLA writes it for an empty profile and for another program's
as well. Proof is that it found costs in it: by its counts, which it writes when something is
missing, or by its lines on single instructions, which it writes in a verbose log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from counterpoint.core.printable import counted_noun
from counterpoint.flags.observed import boundary
from counterpoint.pgle.complaints import ComplaintKind, LogComplaint, complaint
from counterpoint.pgle.log_lines import LogLine, log_lines

VERBOSE_LOG: Final[Mapping[str, str]] = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "profile_guided_latency_estimator=2,gpu_hlo_schedule=1",
}
"""Environment that makes XLA log everything that is read here.

TF_CPP_MAX_LOG_LEVEL, often advised, is not a variable of XLA's.
"""

_ESTIMATOR: Final = "profile_guided_latency_estimator"
_SCHEDULE: Final = "gpu_hlo_schedule"
_SCHEDULER: Final = "latency-hiding-scheduler"
_SCHEDULER_FLAG: Final = "xla_gpu_enable_latency_hiding_scheduler"
_CHECKER: Final = "pgle-accuracy-checker"

_NOTHING_FOUND: Final = "XLA opened the profile, and found none of its costs for the module"

_SOURCE: Final = re.compile(r"Using PGLE profile from (.+)")
_FINGERPRINT: Final = re.compile(r"Fingerprint before LHS for module (.+)\(\d+\) = ([0-9a-f]+)")
_FALLBACK: Final = re.compile(r"PGLE fallback: using (.+)")
_FOUND_PROFILE: Final = re.compile(r"Found profile(?: for module (.+?))?, using profile guided")
_OTHER_ESTIMATOR: Final = re.compile(r"Using ([\w() -]+?) (?:analytical )?latency estimator")
_FOUND: Final = re.compile(r"Found (\d{1,18}) instructions from the profile")
_MISSING: Final = re.compile(r"Missing (\d{1,18}) instructions from the profile")
_MISSING_NAME: Final = re.compile(r"  (\S+)$")
_FOUND_COST: Final = re.compile(
    r"PGLE found (?:cost for: (\S+)|latency for async op (\S+) and|latency between (\S+) and)"
)
_MISSED_COST: Final = re.compile(
    r"PGLE (?:missed cost for:|did NOT find wrapped instruction name or async start\. From:) (\S+)"
)
_OF_SCHEDULE: Final = re.compile(
    r"Using PGLE profile from |Found profile(?: for module .+?)?, using profile guided"
)
_OF_ESTIMATOR: Final = re.compile(
    r"PGLE (?:found|missed|did NOT find) |(?:Found|Missing) \d+ instructions from the profile"
)
"""Lines as pages quote them, without the source file that wrote them."""
_FROM_CACHE: Final = re.compile(r"PGLE-optimized (\S+) loaded from compilation cache")


class ProfileUse(StrEnum):
    """The outcome for a profile in a compile."""

    USED = "used"
    NOT_USED = "not used"
    FAILED = "failed"  # the compile failed for lack of costs
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ModuleUse:
    """One compile of one module. Counts are XLA's own; None if it wrote none.

    `guided` is true if it was scheduled with a profile available, used or not.

    `looked_up` and `missed` are single instructions, known only from a verbose log.
    """

    module: str
    use: ProfileUse
    reason: str
    guided: bool = False
    source: str | None = None
    fingerprint: str | None = None
    fallback: str | None = None
    found: int | None = None
    missing: int | None = None
    missing_names: tuple[str, ...] = ()
    looked_up: frozenset[str] = frozenset()
    missed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CompilerLog:
    """What a log says of profiles. `needs` are variables to set for a more conclusive log.

    `from_xla`: it has lines of XLA's, or of what XLA and JAX say about profiles.
    """

    use: ProfileUse
    reason: str
    modules: tuple[ModuleUse, ...] = ()
    sources: tuple[str, ...] = ()
    complaints: tuple[LogComplaint, ...] = ()
    from_cache: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict[str, str])
    from_xla: bool = True

    def of(self, module: str) -> ModuleUse | None:
        """Return the last compile of a module that had a profile; else its last."""
        own = [use for use in self.modules if use.module == module]
        with_profile = [use for use in own if use.guided]
        return next(reversed(with_profile or own), None)


def read_compiler_log(log_text: str, flags: Mapping[str, str] | None = None) -> CompilerLog:
    """Read a log: XLA's lines and JAX's warnings about profiles.

    `flags` are the XLA flags of that process, if known. They tell whether XLA would have counted
    what is missing, so that silence proves something.
    """
    parser = _LogParser(flags)
    parser.parse(log_text)
    return parser.result()


@dataclass(slots=True)
class _Module:
    """One compile of one module, as far as the log has been read."""

    name: str = ""
    fingerprint: str | None = None
    source: str | None = None
    fallback: str | None = None
    guided: bool = False
    other: str | None = None
    found: int | None = None
    missing: int | None = None
    missing_names: list[str] = field(default_factory=list[str])
    looked_up: set[str] = field(default_factory=set[str])
    missed: set[str] = field(default_factory=set[str])


class _LogParser:
    """Parses a log, and evaluates it."""

    def __init__(self, flags: Mapping[str, str] | None = None) -> None:
        self._flags = flags
        self._modules: list[_Module] = []
        self._open: dict[str, _Module] = {}
        self._complaints: dict[tuple[ComplaintKind, str], LogComplaint] = {}
        self._from_cache: list[str] = []
        self._informs = False  # XLA wrote lines of its lowest level
        self._from_xla = False

    def parse(self, text: str) -> None:
        """Parse a whole log, or the next part of it."""
        for read in log_lines(text):
            line = read if read.file else replace(read, message=read.message.strip())
            self._informs = self._informs or line.level == "I"
            self._from_xla = self._from_xla or bool(line.file)
            raised = complaint(line.message)
            if raised is not None:
                self._complaints.setdefault((raised.kind, raised.text), raised)
            elif line.file == _SCHEDULE or (not line.file and _OF_SCHEDULE.match(line.message)):
                self._parse_schedule(line)
            elif line.file == _ESTIMATOR or (not line.file and _OF_ESTIMATOR.match(line.message)):
                self._parse_estimator(line)
            elif loaded := _FROM_CACHE.search(line.message):
                self._from_cache.append(loaded[1])

    def _parse_schedule(self, line: LogLine) -> None:
        message = line.message
        if match := _FINGERPRINT.match(message):
            self._begin(line, match[1], match[2])
        elif match := _SOURCE.match(message):
            self._module(line, fresh="guided").source = match[1]
        elif match := _FALLBACK.match(message):
            self._module(line, fresh="guided").fallback = match[1]
        elif match := _FOUND_PROFILE.match(message):
            module = self._module(line, fresh="guided")
            module.guided = True
            module.name = match[1] or module.name
        elif match := _OTHER_ESTIMATOR.match(message):
            self._module(line, fresh="other").other = match[1]

    def _parse_estimator(self, line: LogLine) -> None:
        message = line.message
        counts = _FOUND.match(message)
        module = self._counting(line) if counts else self._module(line)
        module.guided = True  # only this estimator writes such lines, even where it is not named
        if counts:
            module.found = int(counts[1])
        elif match := _FOUND_COST.match(message):
            module.looked_up.add(match[1] or match[2] or match[3])
        elif match := _MISSED_COST.match(message):
            module.missed.add(match[1])
        elif match := _MISSING.match(message):
            module.missing = int(match[1])
        elif (match := _MISSING_NAME.match(message)) and module.missing is not None:
            module.missing_names.append(match[1])

    def _counting(self, line: LogLine) -> _Module:
        """Return the module that counts refer to.

        At the default log level, a second count means the next module.
        """
        module = self._module(line)
        return module if module.found is None else self._begin(line)

    def _begin(self, line: LogLine, name: str = "", fingerprint: str | None = None) -> _Module:
        module = _Module(name=name, fingerprint=fingerprint)
        self._modules.append(module)
        self._open[line.thread] = module
        return module

    def _module(self, line: LogLine, fresh: str | None = None) -> _Module:
        """Return the thread's current module, or a new one if it already had such a line."""
        module = self._open.get(line.thread)
        if module is None or (fresh is not None and (module.guided or module.other)):
            return self._begin(line)
        return module

    def result(self) -> CompilerLog:
        """Return the verdict on everything parsed."""
        modules = tuple(
            self._weigh(module) for module in self._modules if module.guided or module.other
        )
        use, reason = self._verdict(modules)
        sources = dict.fromkeys(module.source for module in self._modules if module.source)
        return CompilerLog(
            use=use,
            reason=reason,
            modules=modules,
            sources=tuple(sources),
            complaints=tuple(self._complaints.values()),
            from_cache=tuple(dict.fromkeys(self._from_cache)),
            needs=VERBOSE_LOG if use is ProfileUse.UNKNOWN else {},
            from_xla=self._from_xla or bool(modules or self._complaints or self._from_cache),
        )

    def _weigh(self, module: _Module) -> ModuleUse:
        use, reason = self._use(module)
        return ModuleUse(
            module=module.name or "a module that the log does not name",
            use=use,
            reason=reason,
            guided=module.guided,
            source=module.source if module.guided else None,
            fingerprint=module.fingerprint,
            fallback=module.fallback,
            found=module.found,
            missing=module.missing,
            missing_names=tuple(module.missing_names),
            looked_up=frozenset(module.looked_up),
            missed=frozenset(module.missed - module.looked_up),
        )

    def _use(self, module: _Module) -> tuple[ProfileUse, str]:
        if not module.guided:
            return ProfileUse.NOT_USED, f"scheduled by XLA's own model ({module.other})"
        if _SCHEDULER in self._disabled:
            return ProfileUse.NOT_USED, f"xla_disable_hlo_passes names {_SCHEDULER}"
        if module.found is not None:
            if module.found == 0:
                return ProfileUse.NOT_USED, _NOTHING_FOUND
            return ProfileUse.USED, f"XLA found {module.found} costs, and missed {module.missing}"
        return self._use_uncounted(module)

    def _use_uncounted(self, module: _Module) -> tuple[ProfileUse, str]:
        """Judge a module without XLA's counts: nothing was missing, or nothing was counted."""
        if module.looked_up:
            instructions = counted_noun(len(module.looked_up), "instruction")
            return ProfileUse.USED, f"XLA found costs of {instructions}"
        if module.missed:
            return ProfileUse.NOT_USED, _NOTHING_FOUND
        if self._counts():
            return ProfileUse.USED, "XLA counts what is missing, and counted nothing"
        return (
            ProfileUse.UNKNOWN,
            "XLA opened the profile; the log does not show whether it found costs",
        )

    def _verdict(self, modules: tuple[ModuleUse, ...]) -> tuple[ProfileUse, str]:
        discarded = self._first(ComplaintKind.DISCARDED, ComplaintKind.RENAMED)
        if discarded:
            return ProfileUse.FAILED, discarded.text
        for use in (ProfileUse.USED, ProfileUse.UNKNOWN):
            decisive = next((module for module in modules if module.use is use), None)
            if decisive is not None:
                return use, f"{decisive.module}: {decisive.reason}"
        if self._from_cache:
            return (
                ProfileUse.USED,
                f"{self._from_cache[0]}: compiled with its profile before, from the cache",
            )
        return self._verdict_without(modules)

    def _verdict_without(self, modules: tuple[ModuleUse, ...]) -> tuple[ProfileUse, str]:
        """Return the verdict, with its cause, if no module found a cost."""
        blame = self._first(ComplaintKind.UNREADABLE, ComplaintKind.MISSING_FILE)
        guided = next((module for module in modules if module.guided), None)
        if guided is not None:
            return ProfileUse.NOT_USED, f"{guided.module}: {guided.reason}"
        if blame is not None:
            return ProfileUse.NOT_USED, blame.text
        if (self._flags or {}).get(_SCHEDULER_FLAG, "").lower() in ("false", "0"):
            begins = boundary("-profile-read-despite-false")
            reason = f"{_SCHEDULER_FLAG}=false: from {begins} on XLA then opens no profile"
            return ProfileUse.NOT_USED, reason
        if modules or self._informs:
            return ProfileUse.NOT_USED, (
                "XLA mentions no profile: none was passed, its name does not end in .pbtxt or "
                ".pb (XLA ignores such files silently), or nothing was compiled"
            )
        return (
            ProfileUse.UNKNOWN,
            "the log is not verbose enough: at its default level XLA does not mention profiles",
        )

    def _first(self, *troubles: ComplaintKind) -> LogComplaint | None:
        complaints = self._complaints.values()
        return next((one for one in complaints if one.kind in troubles), None)

    @property
    def _disabled(self) -> tuple[str, ...]:
        passes = (self._flags or {}).get("xla_disable_hlo_passes", "")
        return tuple(word.strip() for word in passes.split(","))

    def _counts(self) -> bool:
        """Return whether XLA would have logged missing costs."""
        if self._flags is None or _CHECKER in self._disabled:
            return False
        level = self._flags.get("xla_gpu_pgle_accuracy_checker", "WARN").upper()
        return self._informs and not level.endswith("OFF")
