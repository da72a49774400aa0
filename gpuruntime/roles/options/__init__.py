"""The configuration as the small options that each room takes."""
