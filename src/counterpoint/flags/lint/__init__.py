"""Settings held to the rules: the case, the remarks, what became of names, and the mends."""
