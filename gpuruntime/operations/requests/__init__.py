"""Bodies of requests, by the kind of object that they are about."""
