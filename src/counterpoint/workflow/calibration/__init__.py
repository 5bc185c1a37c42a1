"""`calibrate`: the scalars of the cost model, fitted to what was measured."""
