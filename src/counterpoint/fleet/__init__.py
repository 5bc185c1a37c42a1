"""Profiles of many hosts, each reduced to an extract where it lies, and what only all of them show.

extract.py makes an extract of one profile, and merges extracts; tasks.py makes those of many
profiles, in processes of this machine or of a Ray cluster; products.py has what else a task can
make. fleet.py arranges merged extracts by host, device and step; stragglers.py finds who makes the
others wait.
"""
