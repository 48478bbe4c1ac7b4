"""Publication of the requests of a CSV file, each row once, even if the process is killed or a reply is lost.

    rows = bulk.read_requests("requests.csv")
    with bulk.Journal("requests.csv.progress", owner="shipper@demo.example at the sandbox") as journal:
        states = await bulk.publish(exchange, rows, journal)

The journal records each step before it is taken. After a kill, run the same lines again to continue.
"""

from __future__ import annotations

from freight_exchange.bulk.journal import Journal, State
from freight_exchange.bulk.publishing import OnRow, publish
from freight_exchange.bulk.request_file import Row, read_requests

__all__ = ["Journal", "OnRow", "Row", "State", "publish", "read_requests"]
