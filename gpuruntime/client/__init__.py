"""The REST API as Python values: typed answers, safe repetition, pages, and waiting."""
