"""Forecasts: Settings are compiled and simulated, with memory and range."""

from counterpoint.workflow.forecast.batch import ForecastBatch as ForecastBatch
from counterpoint.workflow.forecast.batch import PredictionInputs as PredictionInputs
from counterpoint.workflow.forecast.batch import forecasts as forecasts
from counterpoint.workflow.forecast.forecast import CompileRequest as CompileRequest
from counterpoint.workflow.forecast.forecast import PricingContext as PricingContext
from counterpoint.workflow.forecast.forecast import communication_streams as communication_streams
from counterpoint.workflow.forecast.forecast import compile_request as compile_request
from counterpoint.workflow.forecast.forecast import forecast as forecast
from counterpoint.workflow.forecast.iteration import compile_seconds as compile_seconds
from counterpoint.workflow.forecast.iteration import counts_of as counts_of
from counterpoint.workflow.forecast.measured_costs import read_tables as read_tables
from counterpoint.workflow.forecast.ranking import MemoryFit as MemoryFit
from counterpoint.workflow.forecast.ranking import memory_fit as memory_fit
from counterpoint.workflow.forecast.step_range import WITHOUT_CYCLES as WITHOUT_CYCLES
from counterpoint.workflow.forecast.step_range import step_range as step_range
from counterpoint.workflow.forecast.step_range import without_cycles as without_cycles
