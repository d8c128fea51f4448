"""Text tuples from files to batches."""
