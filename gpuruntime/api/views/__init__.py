"""Objects as callers see them, and the pages and counts of lists."""
