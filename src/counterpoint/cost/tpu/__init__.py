"""Prices on TPUs: XLA's own estimates where it wrote them, else bytes, FLOPs, and links of a slice.

pricing.py has the cost model, and ici.py the formulas of collectives.
"""
