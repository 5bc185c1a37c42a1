"""Collectives: kind, bytes and replica groups, and transfers between TPU slices."""

from counterpoint.hlo.collectives.collective import KINDS as KINDS
from counterpoint.hlo.collectives.collective import between_slices as between_slices
from counterpoint.hlo.collectives.collective import collective as collective
from counterpoint.hlo.collectives.collective import replica_groups as replica_groups
from counterpoint.hlo.collectives.megascale import Transfer as Transfer
from counterpoint.hlo.collectives.megascale import transfer_of as transfer_of
from counterpoint.hlo.collectives.megascale import transfers as transfers
