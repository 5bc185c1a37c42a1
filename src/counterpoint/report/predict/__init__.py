"""Reports of `predict` and `calibrate`, as Documents and as JSON."""

from counterpoint.report.predict.calibration_document import (
    calibration_document as calibration_document,
)
from counterpoint.report.predict.calibration_document import calibration_json as calibration_json
from counterpoint.report.predict.predict_document import predict_document as predict_document
from counterpoint.report.predict.predict_json import predict_json as predict_json
