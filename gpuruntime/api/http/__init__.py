"""HTTP of this room: the server, the layers around a handler, routes and problems."""
