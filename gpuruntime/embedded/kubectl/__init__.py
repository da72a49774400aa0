"""What kubectl asks for: discovery, OpenAPI, and the columns of `get`."""
