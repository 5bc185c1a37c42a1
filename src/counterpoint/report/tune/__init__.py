"""Reports of a study: a Document, JSON, progress lines, and the bundle of its files."""
