"""Program: one compiled, scheduled HLO module, and what its instructions mean.

`read_program` makes one; the other functions here answer questions about an instruction of it.
"""

from counterpoint.hlo.category import Category as Category
from counterpoint.hlo.category import bytes_accessed as bytes_accessed
from counterpoint.hlo.category import category as category
from counterpoint.hlo.category import describe as describe
from counterpoint.hlo.category import flops as flops
from counterpoint.hlo.collective import Collective as Collective
from counterpoint.hlo.collective import between_slices as between_slices
from counterpoint.hlo.collective import collective as collective
from counterpoint.hlo.collective import replica_groups as replica_groups
from counterpoint.hlo.identity import StableKey as StableKey
from counterpoint.hlo.identity import stable_key as stable_key
from counterpoint.hlo.instruction import Computation as Computation
from counterpoint.hlo.instruction import Instruction as Instruction
from counterpoint.hlo.instruction import Shape as Shape
from counterpoint.hlo.loops import async_pairs as async_pairs
from counterpoint.hlo.loops import in_loop as in_loop
from counterpoint.hlo.loops import is_done as is_done
from counterpoint.hlo.loops import is_start as is_start
from counterpoint.hlo.loops import loop_multiplier as loop_multiplier
from counterpoint.hlo.loops import start_of as start_of
from counterpoint.hlo.loops import trip_count as trip_count
from counterpoint.hlo.megascale import Transfer as Transfer
from counterpoint.hlo.megascale import transfer_of as transfer_of
from counterpoint.hlo.megascale import transfers as transfers
from counterpoint.hlo.program import Alias as Alias
from counterpoint.hlo.program import Program as Program
from counterpoint.hlo.program import launched as launched
from counterpoint.hlo.program import launches as launches
from counterpoint.hlo.proto_reader import program_from_proto as program_from_proto
from counterpoint.hlo.provenance import Phase as Phase
from counterpoint.hlo.provenance import Provenance as Provenance
from counterpoint.hlo.provenance import provenance as provenance
from counterpoint.hlo.reader import read_program as read_program
from counterpoint.hlo.stack import Frame as Frame
from counterpoint.hlo.text_reader import program_from_text as program_from_text
