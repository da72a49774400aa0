"""The API server: requests, answers and streams."""
