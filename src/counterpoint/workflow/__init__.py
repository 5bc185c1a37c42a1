"""Workflows that combine other packages, each kind in a package of its own.

feedback      a measured profile goes back to XLA: auto, manual, nsys
prediction    the step time on devices that are not available here
calibration   the scalars of the cost model, fitted to measurements
"""
