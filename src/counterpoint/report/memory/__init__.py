"""Results about memory."""
