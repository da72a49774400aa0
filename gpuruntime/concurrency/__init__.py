"""Small primitives for one event loop; they know nothing of the product."""
