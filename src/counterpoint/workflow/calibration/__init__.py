"""`calibrate`: the scalars of the cost model, fitted to measurements."""

from counterpoint.workflow.calibration.calibrate import calibrate as calibrate
from counterpoint.workflow.calibration.calibration import Calibration as Calibration
from counterpoint.workflow.calibration.calibration import ScalarFit as ScalarFit
from counterpoint.workflow.calibration.calibration import StepFit as StepFit
from counterpoint.workflow.calibration.step_fit import MeasuredStep as MeasuredStep
from counterpoint.workflow.calibration.step_fit import StepOf as StepOf
from counterpoint.workflow.calibration.step_fit import calibrate_steps as calibrate_steps
from counterpoint.workflow.calibration.step_fit import predicted_step as predicted_step
