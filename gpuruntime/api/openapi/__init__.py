"""The OpenAPI document, made from the routes, and the page that shows it."""
