"""The cost of communication: by a user's table, a shipped table, or NCCL's own model."""
