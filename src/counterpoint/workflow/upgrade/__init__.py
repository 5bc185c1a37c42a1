"""`upgrade`: what another release of JAX does to a step, without a GPU.

`installation` has each release in an environment that an `installer` makes (`uv`, else `pip`),
with the `packages` of the workload; `side` lowers and compiles with it; `changes` and
`flag_effects` say what is different, `bisection` in which release.
"""

from counterpoint.workflow.upgrade.bisection import LEAST_MOVE as LEAST_MOVE
from counterpoint.workflow.upgrade.bisection import ReleaseMove as ReleaseMove
from counterpoint.workflow.upgrade.bisection import ReleaseStep as ReleaseStep
from counterpoint.workflow.upgrade.bisection import moves_of as moves_of
from counterpoint.workflow.upgrade.changes import ChangeKind as ChangeKind
from counterpoint.workflow.upgrade.changes import StepChangeOfKind as StepChangeOfKind
from counterpoint.workflow.upgrade.flag_effects import LEAST_EFFECT as LEAST_EFFECT
from counterpoint.workflow.upgrade.flag_effects import FlagTry as FlagTry
from counterpoint.workflow.upgrade.side import LeftOutFlag as LeftOutFlag
from counterpoint.workflow.upgrade.side import UpgradeOptions as UpgradeOptions
from counterpoint.workflow.upgrade.side import UpgradeSide as UpgradeSide
from counterpoint.workflow.upgrade.upgrade import Upgrade as Upgrade
from counterpoint.workflow.upgrade.upgrade import upgrade as upgrade
from counterpoint.workflow.upgrade.upgrade import upgrade_code as upgrade_code
