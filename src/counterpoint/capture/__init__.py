"""Running a workload under Settings, and keeping all that it leaves."""

from counterpoint.capture.launch import launch as launch
from counterpoint.capture.request import Interpreter as Interpreter
from counterpoint.capture.request import Request as Request
from counterpoint.capture.request import Window as Window
from counterpoint.capture.request import find_interpreter as find_interpreter
