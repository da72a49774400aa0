"""Our own kinds, and the words that they use: phases, reasons, labels."""
