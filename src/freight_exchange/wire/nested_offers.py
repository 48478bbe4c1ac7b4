"""Decoder of the key `offer`: the offers on a record, and the contacts beside or inside them."""

from __future__ import annotations

from typing import Any, Final

import attrs

from freight_exchange.models import Company, Contact, Offer, OfferStatus
from freight_exchange.models._base import Record
from freight_exchange.wire import fields
from freight_exchange.wire.converter import CONVERTER, Extra, Flaws, Raw
from freight_exchange.wire.scalars import UnreadableRecordError, position_of

__all__: list[str] = []

# Instead of an absent object, a backend may send an empty list or another empty value of its language.
NOTHING_THERE: Final[tuple[object, ...]] = (None, {}, [], "", False)
_CONTACTS: Final = (fields.CONTACT, fields.COMPANY)
OFFER_KEYS: Final = (fields.OFFER, *_CONTACTS)
_OF_AN_OFFER: Final = (*fields.OFFER_AMOUNT, *fields.OFFER_ID)


def _nested(model: type[Record], raw: object, key: str) -> Any:
    """Return the record under a key, or `None` if it is absent."""
    if raw in NOTHING_THERE:
        return None
    try:
        return CONVERTER.structure(raw, model)
    except UnreadableRecordError as fault:
        raise fault.under(key) from None


class NestedOffers:
    """Content of `offer`: the offers by their keys, and contacts.

    Attributes:
        rest: Other and unreadable values.
        used: Key of the entry that the record itself is about: the only one, or the selected one.
        unread: Unreadable contacts of the record.
        contacts: Contact and company of the record.
    """

    __slots__ = ("_entries", "_flaws", "contacts", "offers", "rest", "selected", "unread", "used")

    def __init__(self, raw: object, flaws: Flaws | None) -> None:
        self._flaws = flaws
        self._entries, self.rest = _entries(raw)
        self.offers: dict[str, Offer] = {}
        self.unread: dict[str, object] = {}
        self.contacts: dict[str, object] = {}
        for key, entry in self._entries.items():
            try:
                self.offers[key] = _nested(Offer, entry, _path(key))
            except UnreadableRecordError as fault:
                self._leave_out(fault)
                self.rest[key] = entry
        selected = (key for key, offer in self.offers.items() if offer.status == OfferStatus.SELECTED)
        self.selected = next(selected, None)
        self.used = next(iter(self._entries)) if len(self._entries) == 1 else self.selected

    def take(self, model: type[Record], key: str, own: object) -> Any:
        """Return the contact under a key: of the record, or beside the entries, or of the used entry, in this order.

        A copy in another of these places is removed, since it adds nothing.
        """
        found, taken = self._contact(model, own, key), own
        if found is None and own not in NOTHING_THERE:
            self.unread[key] = own
        if key in self.rest:
            if found is None:
                found, taken = self._contact(model, self.rest[key], f"{fields.OFFER}.{key}"), self.rest[key]
            if found is not None and self.rest[key] == taken:
                del self.rest[key]
        entry = None if self.used is None else self._entries[self.used]
        if self.used is not None and isinstance(entry, dict) and key in entry:
            if found is None:
                found, taken = self._contact(model, entry[key], f"{_path(self.used)}.{key}"), entry[key]
            offer = self.offers.get(self.used)
            if found is not None and offer is not None and entry[key] == taken:
                unread = {name: value for name, value in offer.extra.items() if name != key}
                self.offers[self.used] = attrs.evolve(offer, extra=unread)
        return found

    def _contact(self, model: type[Record], raw: object, path: str) -> Any:
        try:
            return _nested(model, raw, path)
        except UnreadableRecordError as fault:
            self._leave_out(fault)
            return None

    def _leave_out(self, fault: UnreadableRecordError) -> None:
        if self._flaws is None:
            raise fault
        self._flaws.append(fault)


def read_nested_offers(raw: Raw, extra: Extra, flaws: Flaws | None) -> NestedOffers:
    """Decode the offers and contacts of a record; unreadable ones move to `extra`."""
    found = NestedOffers(raw.get(fields.OFFER), flaws)
    # Bid listings have the contacts on the record; the reply to an approval has them in the offer.
    found.contacts = {
        "contact": found.take(Contact, fields.CONTACT, raw.get(fields.CONTACT)),
        "company": found.take(Company, fields.COMPANY, raw.get(fields.COMPANY)),
    }
    if found.rest:
        alone = found.rest.keys() == {""}
        found.unread[fields.OFFER] = found.rest[""] if alone else found.rest
    extra.update(found.unread)
    return found


def _entries(raw: object) -> tuple[dict[str, object], dict[str, object]]:
    """Split `offer` into entries by their keys, and other values. A single entry has the key ""."""
    if raw in NOTHING_THERE:
        return {}, {}
    if isinstance(raw, list):
        return {str(position): entry for position, entry in enumerate(raw) if entry not in NOTHING_THERE}, {}
    if not isinstance(raw, dict) or any(key in raw for key in _OF_AN_OFFER):
        return {"": raw}, {}
    entries: dict[str, object] = {}
    others: dict[str, object] = {}
    for key in sorted(raw, key=position_of):
        entry = raw[key]
        # For example a count of the entries.
        stray = position_of(key) < 0 and entry is not None and not isinstance(entry, (dict, list))
        if stray or (key in _CONTACTS and entry not in NOTHING_THERE):
            others[key] = entry
        elif entry not in NOTHING_THERE:
            entries[key] = entry
    return entries, others


def _path(key: str) -> str:
    return f"{fields.OFFER}.{key}" if key else fields.OFFER
