"""The work of an instruction: its category, FLOPs and bytes."""

from counterpoint.hlo.work.category import Category as Category
from counterpoint.hlo.work.category import bytes_accessed as bytes_accessed
from counterpoint.hlo.work.category import category as category
from counterpoint.hlo.work.category import describe as describe
from counterpoint.hlo.work.category import flops as flops
