"""Work that crosses rooms, each kind in a package of its own.

feedback      a measured profile goes back to XLA: auto, manual, nsys
prediction    what a step takes on devices that are not here
calibration   the scalars of the cost model, from what was measured
"""
