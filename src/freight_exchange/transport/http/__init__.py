"""HTTP connections; the only package that imports an HTTP library."""
