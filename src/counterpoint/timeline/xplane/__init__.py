"""Reads XPlane profiles (`.xplane.pb`)."""
