"""What stops a compile within the worker, on its way to the outcome."""

from __future__ import annotations

from counterpoint.compile.workers.job import Failure


class Refusal(Exception):
    """The program, the options or the machine don't allow it."""

    def __init__(self, failure: Failure, detail: str, option: str | None = None) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.option = option
