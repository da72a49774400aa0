"""Commands in the containers of units, and connections to their ports."""
