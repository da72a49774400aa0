"""The use cases behind the routes of invocations, functions and dead letters."""
