"""What XLA plans to hold in memory, buffer by buffer, and whose it is."""
