"""Doctor: what of this host, or of all hosts, is wrong before a run starts.

    /proc, /sys, environment, packages, nvidia-smi ── gather ──► Facts ── checks ──► Verdicts

Everything is read at the edge (`gather`); a check is a pure function of Facts, in a file of its
own. `cluster` lets one process per host do both, and merges what they found.
"""
