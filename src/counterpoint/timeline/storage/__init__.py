"""Stores a Timeline on disk: a directory of Parquet tables."""

from counterpoint.timeline.storage.parquet import write_parquet as write_parquet
