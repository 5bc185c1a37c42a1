"""The race: which trial is next, by what is known; and the loop that carries it out."""
