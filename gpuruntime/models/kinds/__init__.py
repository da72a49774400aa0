"""Our own kinds, with their phases, reasons and labels."""
