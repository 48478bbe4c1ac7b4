"""Faces of the exchange: in process, as an ASGI application, and on raw sockets."""
