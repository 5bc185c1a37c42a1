"""What may be changed: dimensions with choices, which of them go together, and arms by hand."""
