"""The search: arms are compiled for the target, simulated and ranked before anything runs."""
