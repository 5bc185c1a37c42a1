"""Simulation of a scheduled Program on a cost model, as a Timeline."""
