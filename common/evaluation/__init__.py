"""Metrics, significance, benchmark and report: what a run is worth, in numbers and pictures."""
