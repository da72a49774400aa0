"""Ends what nobody will run: invocations whose function is gone or taken over."""
