"""Refresh: a jaxlib's own flags, read from its library and obtained from its parser."""
