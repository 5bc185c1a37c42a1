"""The base of every room: errors with a next step, ranges with their basis, parsers, outputs.

Read errors.py first, then basis.py and parsing.py. Interval sets over numpy columns are in
`core.columns`; the pages of rules are read by `core.rules`.
"""

from counterpoint.core.basis import Basis as Basis
from counterpoint.core.basis import Range as Range
from counterpoint.core.basis import Unknown as Unknown
from counterpoint.core.basis import as_html as as_html
from counterpoint.core.basis import set_html_renderer as set_html_renderer
from counterpoint.core.basis import shorten_names as shorten_names
from counterpoint.core.errors import ArgumentError as ArgumentError
from counterpoint.core.errors import CounterpointError as CounterpointError
from counterpoint.core.errors import InputError as InputError
from counterpoint.core.errors import UsageError as UsageError
from counterpoint.core.errors import WriteError as WriteError
from counterpoint.core.outputs import refuse_url as refuse_url
from counterpoint.core.outputs import unused_path as unused_path
from counterpoint.core.parsing import parse_json as parse_json
from counterpoint.core.parsing import parse_toml as parse_toml
