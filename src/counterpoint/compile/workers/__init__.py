"""Processes that compile and may die of it: what goes to them, what they do, who watches them."""
