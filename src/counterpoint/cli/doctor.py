"""`counterpoint doctor`: what is wrong here before a run starts, on one host or on all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.capture.world import find_world
from counterpoint.cli.output import check_output, write_output
from counterpoint.core.errors import UsageError
from counterpoint.doctor.checks import CHECKS
from counterpoint.doctor.cluster.consult import Terms, consult, world_or_refuse
from counterpoint.doctor.cluster.merged import COMPARISONS
from counterpoint.doctor.diagnosis import Diagnosis, diagnose_hosts
from counterpoint.doctor.examine import chosen, examine, refuse_unknown
from counterpoint.doctor.gather.gather import gather
from counterpoint.report.doctor_document import doctor_document, doctor_json
from counterpoint.report.terminal import plain_text, print_document

Switch = Annotated[bool, Parameter(show_default=False)]


def doctor(  # noqa: PLR0913 - the options of the command
    *,
    cluster: Switch = False,
    dcn: Switch = False,
    only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (),
    python: Path | None = None,
    no_probe: Switch = False,
    meet: Path = Path(),
    timeout: float = 60.0,
    json: Switch = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Switch = False,
) -> int:
    """Check versions, flags, network, limits, clocks and GPUs before a run. 1 if something is bad.

    Args:
        cluster: On all hosts: start one on each with srun or mpirun; rank 0 prints what they found.
        dcn: A step's traffic between hosts goes by TCP (multislice, no InfiniBand).
        only: Only these checks, by name or code: tcp-buffers,DOC5.
        skip: Not these.
        python: The interpreter that runs the program; else the first with a jaxlib.
        no_probe: Don't ask the installed compiler about the flags.
        meet: A directory that all hosts see, for --cluster.
        timeout: Seconds to wait for all ranks, for --cluster.
        json: Print everything as JSON.
        out: Write the report there: .json, .txt or .md.
        force: Overwrite what is there.
    """
    rules = (*CHECKS, *COMPARISONS)
    refuse_unknown(rules, only, "--only")
    refuse_unknown(rules, skip, "--skip")
    world = world_or_refuse(find_world(os.environ)) if cluster else None
    if not 0 < timeout < float("inf"):
        raise UsageError(f"--timeout takes seconds, not {timeout}")
    if out is not None and (world is None or world.seats[0].rank == 0):
        check_output(out, force=force, endings=(".json", ".txt", ".md"))
    facts = gather(os.environ, python=python, probe=not no_probe, dcn=dcn)
    checks = chosen(CHECKS, only, skip)

    def say(diagnosis: Diagnosis) -> None:
        _print(diagnosis, out, as_json=json)

    if world is not None:
        terms = Terms(checks, chosen(COMPARISONS, only, skip), meet, timeout)
        return consult(facts, world, terms, say)
    hosts, said = diagnose_hosts([(facts.host, examine(facts, checks))])
    diagnosis = Diagnosis(hosts=hosts, said=said)
    say(diagnosis)
    return int(diagnosis.failed)


def _print(diagnosis: Diagnosis, out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        as_data = out.suffix == ".json"
        document = doctor_document(diagnosis)
        write_output(out, doctor_json(diagnosis) if as_data else plain_text(document))
    elif as_json:
        sys.stdout.write(doctor_json(diagnosis))
    else:
        print_document(doctor_document(diagnosis), sys.stdout)
