"""Renderer of every kind of record, with the quirks of a profile."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from freight_exchange.sandbox.model.state import Account, Cargo, Carrier, Currency, Offer, Request, Route, Token
from freight_exchange.sandbox.rendering.codec import Raw
from freight_exchange.sandbox.rendering.shapes import Json, Shapes

__all__ = ["Json", "Place", "Renderer"]

Place = Literal["listing", "approval"]

_OPTIONAL_OF_REQUEST = ("refId", "notes", "measureUnit", "massUnit", "incoterm", "hazardous")
_OPTIONAL_OF_LISTING = ("refId", "notes", "measureUnit", "massUnit")
_OPTIONAL_OF_OFFER = ("terms", "rates")
_OPTIONAL_OF_USER = ("middlename", "title", "imageUrl", "lastlogin")
_OPTIONAL_OF_ROUTE = ("cycutoff", "cfscutoff", "vesselName", "vessel", "voyageId")
_FEE = Decimal("25.00")


class Renderer(Shapes):
    """Writer of records under one profile. Every method returns a new value."""

    # Records

    def request(self, request: Request) -> Json:
        """Write a record of `raterequests` (service document, 2)."""
        scalars, cargo = self.scalars, request.cargo
        width, height, length = self._dimensions(cargo)
        record = {
            "index": scalars.identifier(request.index),
            "commodityname": cargo.commodityname,
            "refId": request.refid,
            "requesttype": scalars.requesttype(cargo.requesttype, request.index),
            "status": self._status(request),
            "origin": cargo.origin,
            "destination": cargo.destination,
            "needdate": self._needdate(cargo),
            "notes": self._notes(cargo),
            "qty": scalars.number(cargo.quantity),
            "packaging": scalars.packaging(cargo.packaging, request.index),
            "measureUnit": "m",
            "width": width,
            "height": height,
            "length": length,
            "massUnit": "kg",
            "weight": self._weight(cargo),
            "incoterm": cargo.incoterm,
            "hazardous": scalars.hazardous(cargo.hazardous),
        }
        return self.finished(record, _OPTIONAL_OF_REQUEST)

    def listing(self, request: Request, offers: Sequence[Offer], forwarder: Account | None, place: Place) -> Json:
        """Write a record of `offers`, the shipper's view of a request. `forwarder` is the selected one, if any."""
        record = self._cargo(request, self._status(request))
        entries = [self._entry(offer, place) for offer in offers]
        home = self.profile.approval_contacts if place == "approval" else self.profile.listing_contacts
        if forwarder is not None and home != "record":
            for entry, offer in zip(entries, offers, strict=True):
                if offer.index == request.selected:
                    self._introduce(entry, forwarder)
        single = request.selected is not None and self.profile.selected_offer_shape == "entry"
        self._place_offers(record, entries, single=single or place == "approval")
        if forwarder is None:
            self._no_contacts(record)
        elif home != "offer":
            self._introduce(record, forwarder)
        return self.finished(record, _OPTIONAL_OF_LISTING)

    def bid(self, request: Request, offer: Offer, shipper: Account | None) -> Json:
        """Write a record of `bids`, the forwarder's view of its offer. `shipper` is `None` before a selection."""
        profile, scalars = self.profile, self.scalars
        word = "Selected" if request.selected == offer.index else "Available"
        record = self._cargo(request, scalars.status(word, request.index))
        record["refId"] = request.refid
        record["price"] = scalars.number(offer.amount)
        record[profile.bid_currency_key] = scalars.identifier(offer.currency)
        if profile.bid_offer == "empty":
            record["offer"] = {}
        if shipper is None:
            self._no_contacts(record)
        elif profile.bid_contacts == "record":
            self._introduce(record, shipper)
        else:
            self._introduce(record.setdefault("offer", {}), shipper)
        return self.finished(record, _OPTIONAL_OF_LISTING)

    def submitted(self, request: Request, offer: Offer) -> Json:
        """Write the `bid` object of the reply to a submission (service document, 4.10)."""
        profile, scalars = self.profile, self.scalars
        entry = {
            profile.submit_offer_id_key: self._offer_id(offer),
            "offerAmount": scalars.number(offer.amount),
            profile.submit_currency_key: scalars.identifier(offer.currency),
            "status": scalars.word(offer.status),
        }
        self._set_terms_and_rates(entry, offer)
        record = self._cargo(request, self._status(request))
        record["refId"] = request.refid
        record["offer"] = self.finished(entry, _OPTIONAL_OF_OFFER)
        return self.finished(record, _OPTIONAL_OF_LISTING)

    def route(self, route: Route) -> Json:
        """Write a record of `routes` (service document, 2)."""
        profile, scalars = self.profile, self.scalars
        estimated = profile.route_time_keys == "estDeparture"
        record = {
            "index": scalars.identifier(route.index),
            "origin": route.origin,
            "destination": route.destination,
            "cycutoff": scalars.date(route.cycutoff),
            "cfscutoff": scalars.date(route.cfscutoff),
            "estDeparture" if estimated else "departure": scalars.date(route.departure),
            "estArrival" if estimated else "arrival": scalars.date(route.arrival),
            profile.carrier_key: scalars.identifier(route.carrier),
            profile.vessel_key: route.vessel,
            "voyageId": route.voyageid,
            "timezone": route.timezone,
        }
        return self.finished(record, _OPTIONAL_OF_ROUTE)

    def carrier(self, carrier: Carrier) -> Json:
        return self.finished({"index": self.scalars.identifier(carrier.index), "name": carrier.name}, ())

    def currency(self, currency: Currency) -> Json:
        record = {
            "index": self.scalars.identifier(currency.index),
            "name": currency.name,
            "code": currency.code,
        }
        return self.finished(record, ())

    def user(self, account: Account, token: Token, now: float) -> Json:
        """Write the `user` object of a login (service document, 4.1)."""
        profile, scalars = self.profile, self.scalars
        company = self.company(account.company, own=True)
        if profile.company_index != "absent":
            index = account.company.index
            company = {"index": index if profile.company_index == "int" else str(index), **company}
        record: Json = {
            "access_token": token.value,
            "firstname": account.firstname,
            "middlename": account.middlename,
            "lastname": account.lastname,
            "email": account.email,
            "title": account.title,
            "enabled": scalars.enabled(),
            "lastlogin": scalars.date(account.lastlogin),
            "imageUrl": account.image_url,
            "company": company,
        }
        if profile.expires_key != "absent":
            lifetime = int(token.expires if profile.expires_form == "epoch" else token.expires - now)
            record[profile.expires_key] = str(lifetime) if profile.expires_form == "string" else lifetime
        return self.finished(record, _OPTIONAL_OF_USER)

    # Parts of records

    def _cargo(self, request: Request, status: str) -> Json:
        """Write the fields that listings, bids and submissions share."""
        scalars, cargo = self.scalars, request.cargo
        width, height, length = self._dimensions(cargo)
        return {
            "index": scalars.identifier(request.index),
            "cargoname": cargo.commodityname,
            "status": status,
            "origin": cargo.origin,
            "destination": cargo.destination,
            "needdate": self._needdate(cargo),
            "notes": self._notes(cargo),
            "qty": scalars.number(cargo.quantity),
            "packingtype": scalars.packaging(cargo.packaging, request.index),
            "measureUnit": "m",
            "massUnit": "kg",
            "weight": self._weight(cargo),
            "cargowidth": width,
            "cargoheight": height,
            "cargolength": length,
        }

    def _entry(self, offer: Offer, place: Place) -> Json:
        profile, scalars = self.profile, self.scalars
        entry = {
            profile.approval_offer_id_key if place == "approval" else profile.offer_id_key: self._offer_id(offer),
            "offerAmount": scalars.number(offer.amount),
            profile.offer_currency_key: scalars.identifier(offer.currency),
            "status": scalars.word(offer.status),
        }
        self._set_terms_and_rates(entry, offer)
        return self.finished(entry, _OPTIONAL_OF_OFFER)

    def _set_terms_and_rates(self, entry: Json, offer: Offer) -> None:
        if offer.terms is not None:
            entry["terms"] = offer.terms
        if offer.rates:
            rates: Mapping[str, Any] = offer.rates
            if self.profile.rates_sum == "fee_added":
                rates = {**rates, "Platform Fee": _FEE}
            entry["rates"] = {fee: self.scalars.number(amount) for fee, amount in rates.items()}
        elif self.profile.empty_map != "omitted":
            entry["rates"] = {"object": {}, "list": [], "null": None}[self.profile.empty_map]

    def _place_offers(self, record: Json, entries: list[Json], *, single: bool) -> None:
        shape = self.profile.offer_shape
        if not entries:
            empty: dict[str, Any] = {"object": {}, "list": [], "null": None}
            if self.profile.empty_offer in empty:
                record["offer"] = empty[self.profile.empty_offer]
        elif len(entries) == 1 and (single or shape == "entry"):
            record["offer"] = entries[0]
        elif shape == "list":
            record["offer"] = entries
        else:
            record["offer"] = {str(number): entry for number, entry in enumerate(entries)}

    def _introduce(self, record: Json, account: Account) -> None:
        record["loadingPOC"] = {"name": account.name, "email": account.email}
        record["loadingCompany"] = self.company(account.company, own=False)

    def _no_contacts(self, record: Json) -> None:
        if self.profile.pending_contacts != "absent":
            nothing: Any = None if self.profile.pending_contacts == "null" else []
            record["loadingPOC"] = record["loadingCompany"] = nothing

    def _offer_id(self, offer: Offer) -> str | int:
        return str(offer.index) if self.profile.offer_id_type == "str" else offer.index

    def _status(self, request: Request) -> str:
        word = "Available" if request.state == "open" else self.profile.selected_status
        return self.scalars.status(word, request.index)

    def _dimensions(self, cargo: Cargo) -> tuple[Any, Any, Any]:
        number = self.scalars.number
        sizes = number(cargo.width), number(cargo.height), number(cargo.length)
        return sizes if self.profile.published_dimensions == "as_sent" else (sizes[2], sizes[0], sizes[1])

    def _weight(self, cargo: Cargo) -> int | Decimal | str | Raw:
        total = self.profile.published_weight == "total"
        return self.scalars.number(cargo.weight * cargo.quantity if total else cargo.weight)

    def _needdate(self, cargo: Cargo) -> str | None:
        day = cargo.arrival[:10]
        match self.profile.published_date:
            case "as_sent":
                return self.scalars.date(cargo.arrival)
            case "day_later" if day < "9999-12-31":
                day = str(dt.date.fromisoformat(day) + dt.timedelta(days=1))
        return self.scalars.date(f"{day} 00:00:00")

    def _notes(self, cargo: Cargo) -> str | None:
        match self.profile.published_notes:
            case "summary":
                return (
                    f"{cargo.quantity} {cargo.packaging}(s) of {cargo.commodityname} from {cargo.origin}"
                    f" to {cargo.destination}."
                )
            case "as_sent":
                return cargo.notes
            case _:
                return None
