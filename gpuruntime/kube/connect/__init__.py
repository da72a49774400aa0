"""How a process finds the API server, and who it is there."""
