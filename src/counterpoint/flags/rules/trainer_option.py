"""An option of the trainer's profiler is misspelled, has a bad value, or is another version's.

## What it does

Checks Levanter's options for its profiler, on a command line and in YAML: the name, the value, and
that all are those of one Levanter.

## Why it costs time

Levanter ends on an option that it does not have, after everything has been imported on all hosts.
The Levanter of its own repository has `trainer.profiler_num_steps`, and the one inside marin
`trainer.profiler.num_steps`: each refuses the other's.

## How it is detected

The rule uses the catalogue: the options of both, with their types. A name that is close to one of
them is a misspelling; other options of the trainer are not looked at.

## Example

```yaml jaxlib=0.10.2
trainer:
  profiler: true
  profilr_num_steps: 3
```

## Fix

Write the option's name.

```yaml jaxlib=0.10.2
trainer:
  profiler: true
  profiler_num_steps: 3
```

## Fix safety

Nothing is written: only you know which Levanter runs.

## References

- https://github.com/stanford-crfm/levanter/blob/main/docs/Performance-Guide.md
- https://github.com/marin-community/marin/blob/main/lib/levanter/src/levanter/callbacks/profiler.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.variable import meant_option, trainer_options
from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG507"
NAME: Final = "trainer-option"
SINCE: Final = "0.1"

_OF_MARIN: Final = "trainer.profiler."


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark for each option."""
    given = case.written.through(Channel.TRAINER)
    of_marin = [setting for setting in given if setting.name.startswith(_OF_MARIN)]
    for setting in given:
        option = trainer_options().get(setting.name)
        if option is None:
            near = meant_option(setting.name)
            message = "Levanter has no such option, and ends"
            yield remark(CODE, Severity.ERROR, setting, message, f"write {near}")
        elif setting.known and setting.value is not None and not option.takes(setting.meant):
            wanted = "true or false" if option.type == "bool" else "a whole number, at least 0"
            message = f"Levanter rejects `{setting.meant}`"
            yield remark(CODE, Severity.ERROR, setting, message, f"write {wanted}")
        elif of_marin and setting not in of_marin:
            message = f"no Levanter has both this and {of_marin[0].name}, which is marin's name"
            advice = "write all of them as the Levanter that runs has them"
            yield remark(CODE, Severity.WARNING, setting, message, advice)
