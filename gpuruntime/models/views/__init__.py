"""What callers of the API see, as the server writes it and the client reads it."""
