"""Time to live: the rules of the reference, one file for each of its sections."""
