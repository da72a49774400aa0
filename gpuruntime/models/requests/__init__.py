"""The API's requests as models, which the server reads and clients write."""
