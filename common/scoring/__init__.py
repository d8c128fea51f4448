"""Scoring with an export, by any runtime."""
