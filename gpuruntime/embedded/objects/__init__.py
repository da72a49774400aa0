"""The objects that the server stores, and the rules for every change to them."""
