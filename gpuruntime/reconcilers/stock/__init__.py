"""Stock units and pools made true."""
