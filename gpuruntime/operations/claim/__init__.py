"""The claim protocol gives one request one stock unit, whatever fails."""
