"""Faults at random moments, and a table of what became of the searches."""
