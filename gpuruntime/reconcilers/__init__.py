"""Units, pools and claims made true: observe, decide, act and report, one key at a time."""
