"""The embedded cluster: an API server of our own and what makes its objects move."""
