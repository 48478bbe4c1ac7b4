"""Requests that scans lack: what that proves, and what is looked up. Pure."""
