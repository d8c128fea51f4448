"""Measurements; each names the command that repeats it."""
