"""What an instruction costs on a Target: measured, else from a table, else by a formula."""

from counterpoint.cost.model import Contention as Contention
from counterpoint.cost.model import CostModel as CostModel
from counterpoint.cost.price import FREE as FREE
from counterpoint.cost.price import Family as Family
from counterpoint.cost.price import Price as Price
from counterpoint.cost.price import Source as Source
from counterpoint.cost.price import around as around
