"""Refresh: what a jaxlib says of its own flags, read out of its library and asked of its parser."""
