"""Exposure: communication that is not overlapped, and its causes."""
