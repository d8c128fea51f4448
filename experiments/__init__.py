"""The papers' tables and figures, from finished runs, by scripts of a clone: not installed."""
