"""What the server stores, and the rules of every change to it."""
