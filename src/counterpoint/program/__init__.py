"""Program: one compiled, scheduled HLO module, and what its instructions mean.

`read_program` makes one; the other functions here answer questions about an instruction of it.
"""

from counterpoint.program.asyncs import async_pairs as async_pairs
from counterpoint.program.asyncs import is_done as is_done
from counterpoint.program.asyncs import is_start as is_start
from counterpoint.program.asyncs import start_of as start_of
from counterpoint.program.category import Category as Category
from counterpoint.program.category import category as category
from counterpoint.program.collective import Collective as Collective
from counterpoint.program.collective import collective as collective
from counterpoint.program.collective import replica_groups as replica_groups
from counterpoint.program.identity import StableKey as StableKey
from counterpoint.program.identity import stable_key as stable_key
from counterpoint.program.instruction import Computation as Computation
from counterpoint.program.instruction import Instruction as Instruction
from counterpoint.program.launches import launched as launched
from counterpoint.program.launches import launches as launches
from counterpoint.program.loops import in_loop as in_loop
from counterpoint.program.loops import loop_multiplier as loop_multiplier
from counterpoint.program.loops import trip_count as trip_count
from counterpoint.program.phase import Phase as Phase
from counterpoint.program.program import Alias as Alias
from counterpoint.program.program import Program as Program
from counterpoint.program.proto_reader import program_from_proto as program_from_proto
from counterpoint.program.provenance import Provenance as Provenance
from counterpoint.program.provenance import provenance as provenance
from counterpoint.program.reader import read_program as read_program
from counterpoint.program.shape import Shape as Shape
from counterpoint.program.stack import Frame as Frame
from counterpoint.program.text_reader import program_from_text as program_from_text
from counterpoint.program.words import describe as describe
from counterpoint.program.work import bytes_accessed as bytes_accessed
from counterpoint.program.work import flops as flops
