"""Reports of `explain`, `compare` and `network`, as Documents and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.explain.compare_digest import compare_digest as compare_digest
    from counterpoint.report.explain.compare_document import compare_document as compare_document
    from counterpoint.report.explain.compare_json import compare_json as compare_json
    from counterpoint.report.explain.explain_digest import explain_digest as explain_digest
    from counterpoint.report.explain.explain_document import explain_document as explain_document
    from counterpoint.report.explain.explain_document import run_digest as run_digest
    from counterpoint.report.explain.explain_json import explain_json as explain_json
    from counterpoint.report.explain.fleet_document import fleet_document as fleet_document
    from counterpoint.report.explain.fleet_document import fleet_network as fleet_network
    from counterpoint.report.explain.fleet_json import fleet_json as fleet_json
    from counterpoint.report.explain.network_document import network_document as network_document
    from counterpoint.report.explain.network_json import network_json as network_json

__getattr__ = lazy(__name__)
