"""Search for settings that are really faster: predicted first, then confirmed by measurement.

    Space ──► Arms ──predict──► shortlist ──race──► estimates ──confirm──► Conclusion
                        every event ──► Journal ──fold──► Study

A Study consists of its journal and nothing else. The next move follows from the journal alone, so
a tune that was killed continues where it stopped.

Read request.py and plan.py, which say what a user can ask for, then session.py, which takes a study
from its start to its conclusion (dryrun.py says what it would do). The parts follow in the order of
the picture: arm.py and space/ (what can be tried), search/ (what is predicted to be faster), race/
(what is measured next, and what drops out), executors/ (where a trial runs), trial/ (what one run
shows), statistics/ (what several runs show), conclusion/ (what the user is told), and study/ (the
journal and its directory).

    from counterpoint.tune import TuneRequest, Budget, StudyPlan, tune

    request = TuneRequest(
        command=("python", "train.py"),
        directory=Path("studies/nvls"),
        arms=("NCCL_NVLS_ENABLE=1",),
        plan=StudyPlan(budget=Budget(trials=20)),
    )
    print(tune(request, say=print).sentence)
"""

from __future__ import annotations
