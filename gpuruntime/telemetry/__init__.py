"""Logs, metrics and the operations listener of a role."""
