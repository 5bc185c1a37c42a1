"""Checks a profile against a program, and against another profile."""
