"""Crashes of a shipper's bot around its answers."""
