"""What an instruction costs on a Target: measured, else from a table, else by a formula."""

from counterpoint.cost.model import FREE as FREE
from counterpoint.cost.model import Contention as Contention
from counterpoint.cost.model import CostModel as CostModel
from counterpoint.cost.model import Family as Family
from counterpoint.cost.model import Price as Price
from counterpoint.cost.model import Source as Source
from counterpoint.cost.model import around as around
