"""`predict`: compile for devices that are not available here, price, simulate, compare and rank."""

from counterpoint.workflow.forecast.options import CompileOptions as CompileOptions
from counterpoint.workflow.forecast.options import ForecastOptions as ForecastOptions
from counterpoint.workflow.forecast.options import PredictionOptions as PredictionOptions
from counterpoint.workflow.forecast.options import QuestionOptions as QuestionOptions
from counterpoint.workflow.forecast.ranking import INDIFFERENCE as INDIFFERENCE
from counterpoint.workflow.forecast.ranking import Forecast as Forecast
from counterpoint.workflow.forecast.ranking import RankedCandidate as RankedCandidate
from counterpoint.workflow.forecast.ranking import UncertainStep as UncertainStep
from counterpoint.workflow.forecast.ranking import difference as difference
from counterpoint.workflow.forecast.ranking import simplest as simplest
from counterpoint.workflow.prediction.against import MeasurementComparison as MeasurementComparison
from counterpoint.workflow.prediction.command import predict_command as predict_command
from counterpoint.workflow.prediction.gain import Gain as Gain
from counterpoint.workflow.prediction.gain import check_gain_place as check_gain_place
from counterpoint.workflow.prediction.gain import synthetic_profile as synthetic_profile
from counterpoint.workflow.prediction.prediction import Prediction as Prediction
from counterpoint.workflow.prediction.prediction import check_devices as check_devices
from counterpoint.workflow.prediction.prediction import predict as predict
from counterpoint.workflow.prediction.prediction import require_target as require_target
