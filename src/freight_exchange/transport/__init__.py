"""The send path: deadline and retry, token renewal, limiter, and the only import of an HTTP library."""
