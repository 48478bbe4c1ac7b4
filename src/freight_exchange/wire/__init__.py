"""Wire format: JSON to records, and drafts and parameters to JSON. No other module knows the names of the wire.

`codec` reads records, `replies` what is around them, `encoder` writes, and `json` is the syntax.
"""

from __future__ import annotations

from freight_exchange.wire.encoder import (
    check_paired,
    encode_credentials,
    encode_list_parameters,
    encode_offer,
    encode_request_draft,
    encode_response,
    encode_route,
    encode_route_filters,
)  # fmt: skip
from freight_exchange.wire.json import dump, parse
from freight_exchange.wire.replies import (
    BIDS,
    CARRIERS,
    CURRENCIES,
    MAX_DESCRIBED,
    OFFERS,
    REQUESTS,
    ROUTES,
    Kind,
    Rows,
    decode_bid,
    decode_declined_offer,
    decode_login,
    decode_one,
    decode_rows,
    decode_user,
    decode_written_route,
    find_rejection,
    find_sentence,
    find_sentence_in_text,
    index_of_raw,
    is_token,
    is_unauthorized,
    mask_user,
    reports_no_records,
)  # fmt: skip

__all__ = [
    "BIDS", "CARRIERS", "CURRENCIES", "MAX_DESCRIBED", "OFFERS", "REQUESTS", "ROUTES", "Kind", "Rows", "check_paired",
    "decode_bid", "decode_declined_offer", "decode_login", "decode_one", "decode_rows", "decode_user",
    "decode_written_route", "dump", "encode_credentials", "encode_list_parameters", "encode_offer",
    "encode_request_draft", "encode_response", "encode_route", "encode_route_filters", "find_rejection",
    "find_sentence", "find_sentence_in_text", "index_of_raw", "is_token", "is_unauthorized", "mask_user", "parse",
    "reports_no_records",
]  # fmt: skip
