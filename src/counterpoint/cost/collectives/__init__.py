"""What communication costs: by a user's table, a shipped table, or NCCL's own model."""

from counterpoint.cost.collectives.pricing import price_collective as price_collective
from counterpoint.cost.collectives.table_use import table_notes as table_notes
