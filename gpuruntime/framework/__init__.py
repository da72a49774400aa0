"""What a user's container needs to take calls, and nothing of the rest."""
