"""SSH into units: logins by ticket or key, sessions, files and forwards over `pods/exec`."""
