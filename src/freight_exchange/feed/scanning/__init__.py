"""Execution of scans: requests to the service, and commits of the replies."""
