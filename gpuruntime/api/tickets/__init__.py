"""Tickets for units, which callers present to the gateway, and the gateway's own wake tokens."""
