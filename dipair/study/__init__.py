"""The study of the DiPair paper (§4): its tables and figures on a finished run's data."""
