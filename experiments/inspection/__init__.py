"""Numbers and the page of what a student's kept tokens learn."""
