"""Settings: flags and environment of a run, where they come from, and how XLA treats them."""
