"""The API server: requests in, answers and streams out."""
