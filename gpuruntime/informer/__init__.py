"""A local store of one kind, kept true by list, watch, resume and relist."""
