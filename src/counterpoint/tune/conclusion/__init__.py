"""What a study says: the verdict in one sentence, a row for each arm, and what to doubt."""
