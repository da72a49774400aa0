"""The controllers of volumes, garbage, service accounts and lost nodes."""
