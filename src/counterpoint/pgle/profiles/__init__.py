"""A PGLE profile: costs by instruction name, its files, and its origin."""
