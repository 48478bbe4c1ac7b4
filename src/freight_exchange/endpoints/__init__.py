"""One file per resource: a method is a path, its parameters and a result type."""
