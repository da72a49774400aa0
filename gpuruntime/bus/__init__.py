"""This room alone talks to NATS: names, messages, the connection, records and pull requests."""
