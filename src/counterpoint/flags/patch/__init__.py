"""Settings in a job's own file: the environment of its processes, and nothing else, is changed.

patch.py chooses by the content of the file: manifest.py edits YAML (Kubernetes, SkyPilot),
script.py shell scripts (Slurm, launchers, xpk), whose statements statements.py tells apart.
"""

from counterpoint.flags.patch.patch import PatchedFile as PatchedFile
from counterpoint.flags.patch.patch import patch_text as patch_text
