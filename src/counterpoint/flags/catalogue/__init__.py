"""The catalogue: what each release of jaxlib knows, read out of the releases themselves.

`table` keeps releases as changes, `lookup` makes a Release of them, `history` follows one name.
"""

from counterpoint.flags.catalogue.history import Change as Change
from counterpoint.flags.catalogue.history import History as History
from counterpoint.flags.catalogue.history import history as history
from counterpoint.flags.catalogue.lookup import release as release
from counterpoint.flags.catalogue.lookup import releases as releases
from counterpoint.flags.catalogue.release import Flag as Flag
from counterpoint.flags.catalogue.release import Release as Release
from counterpoint.flags.catalogue.similar import similar as similar
