"""Profiles of many hosts, each reduced to a digest where it lies, and what only all of them show.

digest.py makes a digest of one profile, and merges digests; tasks.py makes those of many profiles,
in processes of this machine or of a Ray cluster; products.py has what else a task can make.
fleet.py arranges merged digests by host, device and step; stragglers.py finds who makes the others
wait.
"""
