"""What a step holds in memory, against what the device has, and what makes it fit."""
