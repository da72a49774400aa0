"""Discovery of the API server and of this process's identity there."""
