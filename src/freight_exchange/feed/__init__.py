"""Feeds: poll a listing of the service, and turn its changes into durable events.

A `Poller` scans a source (`Requests`, `Offers`, `SelectedBids`), compares it with the store, and commits each page with
its events. `Feed` and `OfferFeed` deliver the events.
"""
