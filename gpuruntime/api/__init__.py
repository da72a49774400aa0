"""The REST API: requests into use cases, values into answers, and the document that says so."""
