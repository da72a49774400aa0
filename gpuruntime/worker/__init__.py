"""The worker beside a function's container: it pulls invocations and calls the container."""
