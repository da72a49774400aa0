"""Answers for kubectl: discovery, OpenAPI, and the columns of `get`."""
