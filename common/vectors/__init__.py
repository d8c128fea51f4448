"""Stored vectors: the store, its writer, nearest neighbours."""
