"""Other libraries' encoders and scorers beside ours, measured in one run."""
