"""Makes Workloads of functions, lowered here or in a child process."""

from counterpoint.compile.functions.function import lower_function as lower_function
from counterpoint.compile.functions.function import names_function as names_function
from counterpoint.compile.functions.function import program as program
