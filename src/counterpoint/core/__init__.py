"""The base of every room: errors with a next step, ranges with their basis, documents.

Read errors.py first, then basis.py and documents.py. Interval sets over numpy columns are in
`core.columns`; the pages of rules are read by `core.rules`.
"""

from counterpoint.core.basis import Basis as Basis
from counterpoint.core.basis import Range as Range
from counterpoint.core.basis import Unknown as Unknown
from counterpoint.core.basis import draw_with as draw_with
from counterpoint.core.basis import drawn as drawn
from counterpoint.core.basis import listed as listed
from counterpoint.core.documents import beside as beside
from counterpoint.core.documents import parse_json as parse_json
from counterpoint.core.documents import parse_toml as parse_toml
from counterpoint.core.errors import CounterpointError as CounterpointError
from counterpoint.core.errors import InputError as InputError
from counterpoint.core.errors import UsageError as UsageError
from counterpoint.core.face import lazy as lazy
