"""Values that callers of the API see: the server writes them, and the client reads them.

They have no slots, so that their members are sent in the order of their fields. Words that later
versions may add to are plain text, so that an older client can read them.
"""
