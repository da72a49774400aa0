"""What all children share: how they are written, compared and confined."""
