"""What the other readers do, one per process: python others.py WHAT FILE.

op_profile, overview_page   xprof's conversions, as its viewer asks for them
profile_data                jax.profiler.ProfileData: load, then name and duration of every event

Prints the number of events (profile_data) or of the bytes that came out.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Do what the command line says."""
    what, file = sys.argv[1:]
    print(count_events(file) if what == "profile_data" else convert(what, file))


def convert(tool: str, file: str) -> int:
    """The size of what xprof makes of a file."""
    from xprof.convert.raw_to_tool_data import xspace_to_tool_data

    made, _ = xspace_to_tool_data([file], tool, {})
    if not made:
        sys.exit(f"xprof made nothing of {file} for {tool}")
    return len(made)


def count_events(file: str) -> int:
    """How many events a file holds; each is asked for its name and its duration."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from jax.profiler import ProfileData

    events = nanoseconds = characters = 0
    for plane in ProfileData.from_file(file).planes:
        for line in plane.lines:
            for event in line.events:
                events += 1
                nanoseconds += event.duration_ns
                characters += len(event.name)
    return events


if __name__ == "__main__":
    main()
