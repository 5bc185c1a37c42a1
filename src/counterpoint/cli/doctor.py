"""`counterpoint doctor`: what is wrong here before a run starts, on one host or on all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.capture.world import World
from counterpoint.cli.output import check_output, write_output
from counterpoint.core.errors import UsageError
from counterpoint.doctor.checks import CHECKS
from counterpoint.doctor.cluster.consult import Terms, consult
from counterpoint.doctor.cluster.merged import COMPARISONS
from counterpoint.doctor.cluster.seat import find_seat, place_to_meet, refuse_seat_alone
from counterpoint.doctor.diagnosis import Diagnosis, diagnose_hosts
from counterpoint.doctor.examine import chosen, examine, refuse_nothing, refuse_unknown
from counterpoint.doctor.gather.gather import gather
from counterpoint.report.doctor_document import doctor_document, doctor_json
from counterpoint.report.terminal import plain_text, print_document

Switch = Annotated[bool, Parameter(show_default=False)]
Several = Annotated[tuple[str, ...], Parameter(show_default=False)]


def doctor(  # noqa: PLR0913 - the options of the command
    *,
    cluster: Switch = False,
    dcn: Switch = False,
    only: Several = (),
    skip: Several = (),
    python: Path | None = None,
    no_probe: Switch = False,
    rank: int | None = None,
    ranks: int | None = None,
    meet: Path | None = None,
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
        rank: Which rank this is, for --cluster without a launcher (pods).
        ranks: How many there are.
        meet: A directory that all hosts see, for --cluster; else this one, under a launcher.
        timeout: Seconds to wait for all ranks, for --cluster.
        json: Print everything as JSON.
        out: Write the report there: .json, .txt or .md.
        force: Overwrite what is there.
    """
    rules = (*CHECKS, *COMPARISONS)
    refuse_unknown(rules, only, "--only")
    refuse_unknown(rules, skip, "--skip")
    checks, comparisons = chosen(CHECKS, only, skip), chosen(COMPARISONS, only, skip)
    refuse_nothing((*checks, *comparisons) if cluster else checks, only, skip)
    world = _world(cluster, rank, ranks)
    if not 0 < timeout < float("inf"):
        raise UsageError(f"--timeout takes seconds, not {timeout}")
    if out is not None and (world is None or world.seats[0].rank == 0):
        check_output(out, force=force, endings=(".json", ".txt", ".md"))
    place = place_to_meet(meet, world) if world is not None else Path()
    facts = gather(os.environ, python=python, probe=not no_probe, dcn=dcn)

    def say(diagnosis: Diagnosis) -> None:
        _print(diagnosis, out, as_json=json, plain=world is not None)

    if world is not None:
        terms = Terms(checks, comparisons, place, timeout)
        return consult(facts, world, terms, say)
    hosts, said = diagnose_hosts([(facts.host, examine(facts, checks))])
    diagnosis = Diagnosis(hosts=hosts, said=said)
    say(diagnosis)
    return int(diagnosis.failed)


def _world(cluster: bool, rank: int | None, ranks: int | None) -> World | None:
    if cluster:
        return find_seat(os.environ, rank, ranks)
    refuse_seat_alone(rank, ranks)
    return None


def _print(diagnosis: Diagnosis, out: Path | None, *, as_json: bool, plain: bool) -> None:
    """`plain`: Open MPI gives its ranks a terminal although the output goes into a file."""
    if out is not None:
        as_data = out.suffix == ".json"
        document = doctor_document(diagnosis)
        write_output(out, doctor_json(diagnosis) if as_data else plain_text(document))
    elif as_json:
        sys.stdout.write(doctor_json(diagnosis))
    elif plain:
        sys.stdout.write(plain_text(doctor_document(diagnosis)))
    else:
        print_document(doctor_document(diagnosis), sys.stdout)
