"""Error rates and power of whole studies: `python benchmarks/statistics.py` is tune_statistics.py.

A script's folder comes first on Python's path, so for its neighbours this file stands in the way of
the standard library's module of the same name: whoever imports it is handed that one.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path

if __name__ == "__main__":
    from tune_statistics import main

    sys.exit(main())
else:
    _place = Path(sysconfig.get_path("stdlib")) / "statistics.py"
    _spec = importlib.util.spec_from_file_location("statistics", _place)
    if _spec is None or _spec.loader is None:
        raise ImportError(f"{_place} is not there")
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["statistics"] = _module
    _spec.loader.exec_module(_module)
