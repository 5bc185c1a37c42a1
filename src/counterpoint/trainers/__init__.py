"""Trainers (MaxText, Levanter, ...) as data: one file each, and the module that reads it.

Read trainer.py, then maxtext.toml; options.py finds a trainer's options in a command. No trainer is
ever imported.
"""

from counterpoint.trainers.options import StepTokens as StepTokens
from counterpoint.trainers.options import TokensInStep as TokensInStep
from counterpoint.trainers.options import own_profile_option as own_profile_option
from counterpoint.trainers.options import tokens_of as tokens_of
from counterpoint.trainers.options import tokens_on as tokens_on
from counterpoint.trainers.trainer import QuietVariable as QuietVariable
from counterpoint.trainers.trainer import Trainer as Trainer
from counterpoint.trainers.trainer import find_trainer as find_trainer
from counterpoint.trainers.trainer import is_framework_file as is_framework_file
from counterpoint.trainers.trainer import read_trainer as read_trainer
from counterpoint.trainers.trainer import trainer_packages as trainer_packages
from counterpoint.trainers.trainer import trainers as trainers
