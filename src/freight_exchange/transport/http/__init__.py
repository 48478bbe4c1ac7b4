"""HTTP: the network over httpx or httpx2, the SDK's own connections, and the only imports of HTTP libraries."""
