"""The relay of HTTP between a caller and a server behind us: headers, bodies, times, addresses."""
