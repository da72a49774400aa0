"""The commands of the API's client: their arguments, their requests, and what they print."""
