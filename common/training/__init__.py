"""Optimizer, strategies and the training loop."""
