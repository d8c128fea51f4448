"""SavedModels: export, check, load."""
