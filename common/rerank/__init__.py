"""Reranking a first stage's run with an exported student."""
