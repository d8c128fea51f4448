"""Seconds that a test waits for a process or an answer: plenty, as a loaded machine pauses both."""

PROCESS = 3600.0
ANSWER = 600.0
