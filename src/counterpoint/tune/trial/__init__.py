"""One run of one arm: what it tells, how it failed, and whether it computed the same."""
