"""Resources of the exchange. Each method names a path, its parameters and a result type; `service` sends the calls."""
