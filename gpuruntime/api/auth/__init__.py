"""Authentication, authorisation and rate limits of callers."""
