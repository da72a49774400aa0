"""HTTP as this room serves it: the server, the layers around a handler, the dispatch."""
