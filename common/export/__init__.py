"""Exports: SavedModels and LiteRT files, checked in a fresh process."""
