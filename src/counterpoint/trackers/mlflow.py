"""MLflow: metrics, tables as MLflow's own, and the page as an artifact.

The run is not started: a run that has ended, perhaps failed, keeps its state and its times.
"""

from __future__ import annotations

import os
from typing import Any

from counterpoint.report.summary import FINDING_COLUMNS
from counterpoint.trackers.tracker import (
    FIGURE_COLUMNS,
    PREFIX,
    PROJECT,
    Destination,
    LoggedResult,
    figure_rows,
    finding_rows,
    page_file,
)


def log(mlflow: Any, result: LoggedResult, to: Destination) -> str:  # noqa: ANN401 - untyped client
    """Log the result; into the run that `MLFLOW_RUN_ID` names if no other is named."""
    client = mlflow.MlflowClient()
    given = to.run_id or os.environ.get("MLFLOW_RUN_ID")
    run_id = given or _new_run(client, result.summary.title, to)
    client.get_run(run_id)  # an unknown one is refused before anything is logged
    try:
        _log(client, run_id, result)
    except BaseException:
        if given is None:
            client.set_terminated(run_id, status="FAILED")
        raise
    if given is None:
        client.set_terminated(run_id)
    return f"run {run_id} at {mlflow.get_tracking_uri()}"


def _new_run(client: Any, title: str, to: Destination) -> str:  # noqa: ANN401
    numbered = os.environ.get("MLFLOW_EXPERIMENT_ID") if to.project is None else None
    if numbered is None:
        name = to.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        experiment = client.get_experiment_by_name(name)
        numbered = experiment.experiment_id if experiment else client.create_experiment(name)
    return str(client.create_run(numbered, run_name=title).info.run_id)


def _log(client: Any, run_id: str, result: LoggedResult) -> None:  # noqa: ANN401
    summary = result.summary
    for it in summary.figures:
        client.log_metric(run_id, PREFIX + it.name, it.value)
    for name, columns, rows in (
        ("numbers", FIGURE_COLUMNS, figure_rows(summary)),
        ("findings", FINDING_COLUMNS, finding_rows(summary)),
    ):  # the form of mlflow.log_table, which itself needs pandas
        client.log_dict(run_id, {"columns": [*columns], "data": rows}, f"{PREFIX}{name}.json")
    if result.page is not None:
        with page_file(result.page) as path:
            client.log_artifact(run_id, str(path), PREFIX.rstrip("/"))
