"""What may be said of runs: the unit is the run, never the step."""
