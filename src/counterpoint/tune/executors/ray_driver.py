"""The driver of all our jobs on a cluster of Ray: `python -m ...ray_driver WORD`.

It needs Ray and Python's own modules, and comes to the cluster as a part of the job.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from counterpoint.tune.executors.local import kill_marked
from counterpoint.tune.executors.ray_api import on_node, ray_api
from counterpoint.tune.executors.ray_hold import alive_nodes, hold
from counterpoint.tune.executors.ray_trial import trial
from counterpoint.tune.executors.ray_wire import NAMESPACE, PLACE, of_word, tell

Json = Mapping[str, Any]


def main(word: str) -> None:
    """Do what the tuner asks for."""
    ray = ray_api()
    asked = of_word(word)
    ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    match asked["do"]:
        case "hold":
            hold(asked, _place(str(asked["name"])))
        case "trial":
            trial(asked, _place(str(asked["allocation"])))
        case _:
            _sweep(cast("list[str]", asked["gangs"]))


def _place(allocation: str) -> Path:
    """Ray lets the tuner read what lies in its directory of logs."""
    ray = ray_api()
    node = ray._private.worker.global_worker.node  # noqa: SLF001  # there is no other word for it
    return Path(node.get_logs_dir_path()) / PLACE / allocation


def _sweep(gangs: list[str]) -> None:
    """Kill what is left of gangs, on all nodes."""
    ray = ray_api()
    sweeps = ray.remote(num_cpus=0)(_kill_all)
    left = [
        sweeps.options(scheduling_strategy=on_node(node["NodeID"])).remote(gangs)
        for node in alive_nodes()
    ]
    done, _ = ray.wait(left, num_returns=len(left), timeout=120)
    tell("swept", nodes=len(done), of=len(left))


def _kill_all(gangs: list[str]) -> None:
    for gang in gangs:
        kill_marked(gang)


if __name__ == "__main__":
    main(sys.argv[1])
