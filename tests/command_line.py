"""What the fixture `counterpoint` is: the command line, in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

Counterpoint = Callable[..., subprocess.CompletedProcess[str]]
