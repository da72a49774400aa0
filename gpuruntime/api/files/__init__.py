"""Files of storages, relayed to and from their file servers."""
