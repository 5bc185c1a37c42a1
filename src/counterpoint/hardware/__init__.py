"""Chips, links and Targets as data: each number with its unit and its source.

Read chip.py, whose files are in chips/, with its parts gpu.py, links.py and tpu.py, then target.py.
`hardware.targets` parses user input (`8xH100`), `target_file` TOML files; `mismatch` compares a
Target with the devices of a recording.
"""
