"""The study of the DiPair paper (§4): tables and figures of students trained on a finished run."""
