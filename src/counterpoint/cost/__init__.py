"""The cost of an instruction on a Target: measured, else from a table, else by a formula."""
