"""What to set: recipes, recommendations, and the thresholds at which the compiler merges."""
