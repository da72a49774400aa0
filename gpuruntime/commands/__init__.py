"""The commands of a client: what people type, and what they are told."""
