"""The REST API: requests to use cases, their results to answers, and a document of both."""
