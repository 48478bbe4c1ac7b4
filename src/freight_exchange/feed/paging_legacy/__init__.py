"""Walk of the feed through a window of requests, with learned page sizes, until the feed itself is rebuilt."""
