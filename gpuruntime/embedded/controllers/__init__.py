"""The controllers of volumes, garbage, accounts and lost nodes."""
