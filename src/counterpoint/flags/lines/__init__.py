"""Lines of flags and variables as users write them, and the names that exist."""
