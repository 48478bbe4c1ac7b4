"""Names of the wire: keys, words and parameters. No other module contains any.

If a field has several spellings, all are listed, the most usual first.
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

# Collections and envelopes of replies (service document, 4).
REQUESTS: Final = "raterequests"
OFFERS: Final = "offers"
BIDS: Final = "bids"
ROUTES: Final = "routes"
CARRIERS: Final = "carriers"
CURRENCIES: Final = "currencies"
BID: Final = "bid"
ROUTE: Final = "route"
USER: Final = "user"

# Fields of replies (service document, 2). The names of the freight differ between requests and listings or bids.
INDEX: Final = ("index",)
REF_ID: Final = ("refId",)
COMMODITY: Final = ("commodityname", "cargoname")
TYPE: Final = ("requesttype",)
STATUS: Final = ("status",)
ORIGIN: Final = ("origin",)
DESTINATION: Final = ("destination",)
NEED_DATE: Final = ("needdate",)
NOTES: Final = ("notes",)
QUANTITY: Final = ("qty", "quantity")
PACKAGING: Final = ("packaging", "packingtype")
LENGTH: Final = ("length", "cargolength")
WIDTH: Final = ("width", "cargowidth")
HEIGHT: Final = ("height", "cargoheight")
MEASURE_UNIT: Final = ("measureUnit",)
WEIGHT: Final = ("weight",)
MASS_UNIT: Final = ("massUnit",)
INCOTERM: Final = ("incoterm",)
HAZARDOUS: Final = ("hazardous",)

OFFER: Final = "offer"
CONTACT: Final = "loadingPOC"
COMPANY: Final = "loadingCompany"
PRICE: Final = ("price",)
CURRENCY: Final = ("currencyIndex", "currencyId")

OFFER_ID: Final = ("offerId", "offerIndex", "index")
OFFER_OF: Final = "index of the request"
OFFER_AMOUNT: Final = ("offerAmount",)
TERMS: Final = ("terms",)
RATES: Final = "rates"

CY_CUTOFF: Final = ("cycutoff",)
CFS_CUTOFF: Final = ("cfscutoff",)
DEPARTURE: Final = ("estDeparture", "departure")
ARRIVAL: Final = ("estArrival", "arrival")
CARRIER: Final = ("carrier", "carrierId")
VESSEL: Final = ("vesselName", "vessel")
VOYAGE_ID: Final = ("voyageId",)
TIMEZONE: Final = ("timezone",)

NAME: Final = ("name",)
CODE: Final = ("code",)

EMAIL: Final = ("email",)
FIRST_NAME: Final = ("firstname",)
MIDDLE_NAME: Final = ("middlename",)
LAST_NAME: Final = ("lastname",)
TITLE: Final = ("title",)
ENABLED: Final = ("enabled",)
LAST_LOGIN: Final = ("lastlogin",)
IMAGE_URL: Final = ("imageUrl",)
USER_COMPANY: Final = "company"
TOKEN: Final = "access_token"  # the key's name, not a token
LIFETIME: Final = ("expires_on", "expires_in")

ADDRESS1: Final = ("address1",)
CITY: Final = ("city",)
STATE: Final = ("state",)
POSTAL: Final = ("postal",)
COUNTRY: Final = ("country",)
PHONE: Final = ("phone",)
FAX: Final = ("fax",)
OTI_LICENSE: Final = ("otilicense",)

# Refusals (service document, 7). The body of a 400 is not documented, so these are the usual names.
MESSAGE: Final = "message"
UNAUTHORIZED: Final = "Unauthorized"
SENTENCES: Final = (
    MESSAGE,
    UNAUTHORIZED,
    "error_description",
    "error",
    "errors",
    "detail",
    "details",
    "msg",
    "reason",
    "description",
    "title",
)
# Other keys of such a body, which are not names of wrong fields.
ASIDES: Final = frozenset({"code", "loc", "path", "status", "timestamp", "type"})

# The body of a login (service document, 4.1).
LOGIN_EMAIL: Final = "email"
LOGIN_PASSWORD: Final = "password"  # the key's name, not a password

# Keys of a body that reports a failure, with any status.
FAILURES: Final = frozenset({"error", "errors"})
# Keys of a body whose value tells success from failure: a boolean, a word or an HTTP status.
SUCCESSES: Final = frozenset({"success", "ok"})
OUTCOMES: Final = frozenset({"status", "statuscode", "status_code"})

# Parts of the keys of secrets, such as `refresh_token` and `new_password`.
SECRETS: Final = ("token", "password", "authorization")

# Parameters of listings (service document, 4).
INDEX_PARAMETER: Final = "index"
OFFSET: Final = "offset"
ROWS: Final = "rowsperpage"
SECONDS: Final = "secondsSinceUpdate"
TYPE_PARAMETER: Final = "type"

# Filters of GET route (service document, 4.5), by the argument of `routes.list`.
ROUTE_FILTERS: Final = {
    "origin": "origin",
    "destination": "destination",
    "carrier": "carrierId",
    "vessel": "vessel",
    "voyage_id": "voyageId",
    "timezone": "timezone",
    "departure": "departure",
    "arrival": "arrival",
    "cy_cutoff": "cycutoff",
    "cfs_cutoff": "cfscutoff",
    "departs_from": "departStart",
    "departs_until": "departEnd",
    "arrives_from": "arrivalStart",
    "arrives_until": "arrivalEnd",
    "cy_from": "cyStart",
    "cy_until": "cyEnd",
    "cfs_from": "cfsStart",
    "cfs_until": "cfsEnd",
}
ROUTE_TEXT_FILTERS: Final = frozenset(("origin", "destination", "vessel", "voyage_id", "timezone"))

# Bodies of writes (service document, 4.3, 4.5, 4.8, 4.10), by the field of the draft.
REQUEST_DRAFT: Final = {
    "commodity": "commodityname",
    "type": "requesttype",
    "origin": "origin",
    "destination": "destination",
    "arrival": "arrival",
    "packaging": "packaging",
    "quantity": "quantity",
    "length": "length",
    "width": "width",
    "height": "height",
    "weight": "weight",
    "incoterm": "incoterm",
    "hazardous": "hazardous",
    "notes": "notes",
}
OFFER_REQUEST: Final = "requestIndex"
OFFER_TOTAL: Final = "offer"
OFFER_TERMS: Final = "terms"
# The document has two spellings of each of two fields; options of the client choose.
CURRENCY_FIELDS: Final = {
    "currencyIndex": ("currencyIndex",),
    "currencyId": ("currencyId",),
    "both": ("currencyIndex", "currencyId"),
}
CARRIER_FIELDS: Final = {
    "carrier": ("carrier",),
    "carrierId": ("carrierId",),
    "both": ("carrier", "carrierId"),
}
RESPONSE_OFFER: Final = "offerIndex"
RESPONSE_APPROVED: Final = "approved"
ROUTE_TEXTS: Final = {
    "origin": "origin",
    "destination": "destination",
    "vessel": "vessel",
    "voyage_id": "voyageId",
    "timezone": "timezone",
}
# The key to send, and all spellings under which an unreadable text of a reply may be in `extra`.
ROUTE_TIMES: Final = {
    "cy_cutoff": ("cycutoff", CY_CUTOFF),
    "cfs_cutoff": ("cfscutoff", CFS_CUTOFF),
    "departure": ("departure", DEPARTURE),
    "arrival": ("arrival", ARRIVAL),
}
ROUTE_INDEX: Final = "index"
