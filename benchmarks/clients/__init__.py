"""Programs of other projects that call this one, each in an environment of its own."""
