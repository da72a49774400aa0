"""The worker beside a function's container: takes invocations, and has them answered there."""
