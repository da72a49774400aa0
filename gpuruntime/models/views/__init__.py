"""What callers of the API see, as the server writes it and the client reads it.

The models of answers have no slots, so that their members are sent in the order of their fields.
Words of which later versions may have more are text, so that an older caller can read them.
"""
