"""`counterpoint flags thresholds`: combine thresholds of a program, or of a model's size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.core.errors import UsageError


def thresholds(  # noqa: PLR0913 - the options of the command
    *,
    program: Path | None = None,
    module: str | None = None,
    params: str | None = None,
    total_params: str | None = None,
    dtype: str = "bf16",
    layers: MaybeWholeNumber = None,
    target: str | None = None,
    jaxlib: str | None = None,
    top: WholeNumber = 12,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say at which thresholds XLA merges which collectives, and which are worth a try.

    Args:
        program: An HLO file after optimisation, a directory of XLA dumps, a Run, or a profile
            that embeds its HLO.
        module: Of several modules this one; else the step's, or the one with the most FLOPs.
        params: Without a program: weights of one layer, as 218e6, 218M or 0.218B.
        total_params: Instead: weights of all layers together; needs --layers.
        dtype: What weights and gradients are transferred in.
        layers: How many layers; tells the size of all gradients.
        target: The devices, as 8xH100: tells what a device keeps of a layer.
        jaxlib: The release that will compile it; else the program's, the one installed, the newest.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    if (program is None) == (params is None and total_params is None):
        raise UsageError(
            "flags thresholds takes a program, or the size of a model",
            next="--params 218e6 --dtype bf16 --layers 32",
        )
    if params is not None and total_params is not None:
        raise UsageError("--params are of one layer, --total-params of all: give one of them")
    if program is not None:
        _of_program(program, module, jaxlib, top, json)
        return
    _of_size(params or total_params or "", params is None, dtype, layers, target, json)


def _of_program(
    path: Path, module: str | None, jaxlib: str | None, top: int, as_json: bool
) -> None:
    from counterpoint.cli.finished_program import finished_program
    from counterpoint.flags.advice.thresholds import thresholds as find_thresholds
    from counterpoint.flags.live.installed import installed_version
    from counterpoint.report.flags_thresholds_document import thresholds_document, thresholds_json
    from counterpoint.report.terminal import print_document

    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    subject = finished_program(path, module)
    told = jaxlib or subject.circumstances.get("jaxlib") or installed_version()
    found = find_thresholds(subject.program, told)
    if as_json:
        sys.stdout.write(thresholds_json(found, subject.where))
    else:
        print_document(thresholds_document(found, subject.where, top), sys.stdout)


def _of_size(
    params: str, whole: bool, dtype: str, layers: int | None, target: str | None, as_json: bool
) -> None:
    from counterpoint.flags.advice.layer_rule import layer_rule
    from counterpoint.hardware import parse_devices
    from counterpoint.report.flags_thresholds_document import rule_document, rule_json
    from counterpoint.report.terminal import print_document

    devices = parse_devices(target).count if target is not None else None
    rule = layer_rule(params, dtype, layers, devices, whole=whole)
    if as_json:
        sys.stdout.write(rule_json(rule))
    else:
        print_document(rule_document(rule), sys.stdout)
