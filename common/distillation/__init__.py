"""Teacher, soft labels and the run from texts to exports."""
