"""Experiment trackers: logs a Summary and its page through the client that the user has installed.

tracker.py defines what a client gets and finds the client; each other module knows one client.
None of them is a dependency of Counterpoint, and each is imported when it is used.
"""

from __future__ import annotations

from counterpoint.trackers.tracker import TRACKERS as TRACKERS
from counterpoint.trackers.tracker import Destination as Destination
from counterpoint.trackers.tracker import LoggedResult as LoggedResult
from counterpoint.trackers.tracker import TrackerName as TrackerName
from counterpoint.trackers.tracker import hide_secrets as hide_secrets
from counterpoint.trackers.tracker import log_result as log_result
from counterpoint.trackers.tracker import require_client as require_client
