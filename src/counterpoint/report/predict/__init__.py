"""Reports of `predict`, `upgrade` and `calibrate`, as Documents and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.predict.calibration_document import (
        calibration_document as calibration_document,
    )
    from counterpoint.report.predict.calibration_document import (
        calibration_json as calibration_json,
    )
    from counterpoint.report.predict.predict_digest import predict_digest as predict_digest
    from counterpoint.report.predict.predict_document import predict_document as predict_document
    from counterpoint.report.predict.predict_json import predict_json as predict_json
    from counterpoint.report.predict.upgrade_document import upgrade_document as upgrade_document
    from counterpoint.report.predict.upgrade_json import upgrade_json as upgrade_json

__getattr__ = lazy(__name__)
