"""The console: its static files, and the streams that keep its pages current."""
