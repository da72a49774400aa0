"""The claim protocol: one request gets one stock unit, whatever fails."""
