"""The only speaker to NATS: names, messages, a connection that heals, records and pulls."""
