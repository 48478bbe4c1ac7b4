# ruff: noqa: F403
from freight_exchange.bot import Bot as Bot
from freight_exchange.bot import BotStatus as BotStatus
from freight_exchange.bot import Context as Context
from freight_exchange.bot import DeadLetter as DeadLetter
from freight_exchange.bot import Doubt as Doubt
from freight_exchange.bot import Drop as Drop
from freight_exchange.bot import OfferContext as OfferContext
from freight_exchange.bot import RequestContext as RequestContext
from freight_exchange.bot import RetryLater as RetryLater
from freight_exchange.bot import Router as Router
from freight_exchange.bot import SelectedContext as SelectedContext
from freight_exchange.client import FreightExchange as FreightExchange
from freight_exchange.errors import *
from freight_exchange.feed.events import BidSelected as BidSelected
from freight_exchange.feed.events import Gap as Gap
from freight_exchange.feed.events import OfferEvent as OfferEvent
from freight_exchange.feed.events import RequestEvent as RequestEvent
from freight_exchange.feed.events import Unreadable as Unreadable
from freight_exchange.feed.feed import *
from freight_exchange.filters import OfferFilter as OfferFilter
from freight_exchange.filters import RequestFilter as RequestFilter
from freight_exchange.models import Applied as Applied
from freight_exchange.models import Bid as Bid
from freight_exchange.models import BidStatus as BidStatus
from freight_exchange.models import BidsType as BidsType
from freight_exchange.models import Carrier as Carrier
from freight_exchange.models import Company as Company
from freight_exchange.models import Conflict as Conflict
from freight_exchange.models import Contact as Contact
from freight_exchange.models import Currency as Currency
from freight_exchange.models import Listing as Listing
from freight_exchange.models import NotApplied as NotApplied
from freight_exchange.models import Offer as Offer
from freight_exchange.models import OfferStatus as OfferStatus
from freight_exchange.models import OffersType as OffersType
from freight_exchange.models import Packaging as Packaging
from freight_exchange.models import RateRequest as RateRequest
from freight_exchange.models import RateRequestDraft as RateRequestDraft
from freight_exchange.models import RequestStatus as RequestStatus
from freight_exchange.models import RequestType as RequestType
from freight_exchange.models import Route as Route
from freight_exchange.models import RouteDraft as RouteDraft
from freight_exchange.models import SearchType as SearchType
from freight_exchange.models import StillUnknown as StillUnknown
from freight_exchange.models import UnknownWord as UnknownWord
from freight_exchange.models import User as User
from freight_exchange.options import Addresses as Addresses
from freight_exchange.options import RetryPolicy as RetryPolicy
from freight_exchange.options import Timeouts as Timeouts
from freight_exchange.paging import Page as Page
from freight_exchange.paging import Paginator as Paginator
from freight_exchange.serialization import *
from freight_exchange.transport.call import Request as Request
from freight_exchange.transport.call import Response as Response
from freight_exchange.transport.token_file import TokenFile as TokenFile

__all__: list[str]  # noqa: PYI035  # the table of the module beside this stub
__version__: str
