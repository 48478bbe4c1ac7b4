"""Protocol by which replicas make at most one offer on a request, as a state machine that is searched completely.

Time is counted in ticks. A replica that pauses, or loses its connections, does not take its next step. It may be killed
and taken over at any time. The schedules thus include every behaviour of leases and clocks. The model leaves out two
events that no client can exclude: a pause between the last check of the limit and the system call that writes, and a
network that delivers later than `USER_TIMEOUT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["FENCES", "GUARDS", "REMOVED", "Guard", "State", "Step", "describe_violation", "initial", "is_over", "steps"]

SEND_WINDOW: Final = 1
"""Ticks after the noted time within which a write may begin."""
USER_TIMEOUT: Final = 1
"""Ticks for which the kernel keeps delivering bytes, even those of a dead process."""
SETTLE: Final = 1
"""Ticks until an offer is in the listings."""
MAX_SENDS: Final = 2
"""Sends of a request. A person's decision allows another one."""


class Guard(Enum):
    """Guard of the protocol. Without it, a schedule makes a second offer. One of the last two is enough."""

    LIMIT = "no write begins after the send window"
    LIMIT_BEFORE_COMMIT = "the send window begins before `sending` is committed"
    USER_TIMEOUT = "the kernel gives up unacknowledged bytes"
    WAIT_WINDOW = "a resolver waits for the send window"
    WAIT_USER_TIMEOUT = "a resolver waits for the kernel's time-out"
    WAIT_SETTLE = "a resolver waits until offers are listed"
    WAIT_ANEW = "the successor of a resolver waits from the start"
    VERSION = "the result of a check is committed only over the doubt that was checked"
    EPOCH = "`sending` is committed only in the present epoch"
    COMPARE_AND_SET = "`sending` is committed only from `ready`, by the claimant"


GUARDS: Final = frozenset(Guard)

FENCES: Final = (Guard.EPOCH, Guard.COMPARE_AND_SET)
"""Guards that replace each other: one is enough."""

REMOVED: Final[Sequence[tuple[Guard, ...]]] = (*((guard,) for guard in Guard if guard not in FENCES), FENCES)
"""Minimal sets of guards without which the protocol fails."""


class Phase(Enum):
    """Last step of a replica."""

    IDLE = "idle"
    CLAIMED = "claimed"
    NOTED = "noted the time"
    COMMITTED = "committed sending"
    TIMED = "committed sending, and knows its limit"
    WRITTEN = "written"
    ANSWERED = "answered"
    DEAD = "dead"


class Replica(NamedTuple):
    """Process. `age` counts the ticks since it noted the time; `is_fenced` means that its epoch is over."""

    phase: Phase = Phase.IDLE
    request: int = 0
    send: int = 0
    age: int = 0
    is_fenced: bool = False


class LedgerRow(NamedTuple):
    """The ledger's row of a request.

    Attributes:
        wait: The ticks since the resolver began to wait.
        is_decided: Whether a person has decided that a send was not taken. The check of it may go on.
    """

    state: str = "ready"
    owner: int | None = None
    send: int = 0
    resolver: int | None = None
    wait: int = 0
    is_decided: bool = False

    @property
    def is_sendable(self) -> bool:
        """Return whether the bound of the model allows another send."""
        return self.send < MAX_SENDS + self.is_decided


class Message(NamedTuple):
    """Offer that was sent and has not arrived."""

    request: int
    send: int
    sender: int
    age: int = 0


class State(NamedTuple):
    """All replicas, the database, the network and the service.

    Attributes:
        offers: The age of each offer on a request.
        take_overs, decisions: The number of take-overs, and of decisions of a person, that may still come: the model's
            bounds.
    """

    replicas: tuple[Replica, ...]
    entries: tuple[LedgerRow, ...]
    messages: frozenset[Message]
    offers: tuple[tuple[int, ...], ...]
    take_overs: int
    decisions: int


class Step(NamedTuple):
    """Step of a schedule, in words; `replica` is `None` for time and the network."""

    replica: int | None
    text: str


def initial(*, requests: int, take_overs: int, decisions: int) -> State:
    """Return the initial state of two replicas."""
    entries, offers = (LedgerRow(),) * requests, ((),) * requests
    return State((Replica(), Replica()), entries, frozenset(), offers, take_overs, decisions)


def describe_violation(state: State) -> str | None:
    """Return the violation of a state, or `None`."""
    for request, (entry, offers) in enumerate(zip(state.entries, state.offers, strict=True)):
        if len(offers) > 1:
            return f"request {request} has {len(offers)} offers"
        if entry.state == "confirmed" and not offers:
            return f"request {request} is confirmed without an offer"
    return None


def is_over(state: State) -> bool:
    """Return whether each request has its offer on record, or a bound of the model is reached."""
    return not state.take_overs or all(entry.state == "confirmed" or not entry.is_sendable for entry in state.entries)


def steps(state: State, guards: frozenset[Guard] = GUARDS) -> Iterator[tuple[Step, State]]:
    """Yield each possible next step, with the state after it."""
    yield Step(None, "a tick passes"), _tick(state, guards)
    for message in state.messages:
        yield Step(None, f"offer {message.send} on request {message.request} arrives"), _arrive(state, message)
    for number, replica in enumerate(state.replicas):
        yield from _replica_steps(state, number, replica, guards)
        if state.take_overs and not replica.is_fenced:
            yield Step(number, "is taken over"), _take_over(state, number)
    for request, entry in enumerate(state.entries):
        if entry.state == "unknown":
            yield from _resolver_steps(state, request, entry, guards)


def _replica_steps(
    state: State, number: int, replica: Replica, guards: frozenset[Guard]
) -> Iterator[tuple[Step, State]]:
    entry = state.entries[replica.request]
    is_sending = (entry.state, entry.owner, entry.send) == ("sending", number, replica.send)
    is_timed_first = Guard.LIMIT_BEFORE_COMMIT in guards
    match replica.phase:
        case Phase.IDLE:
            for request, free in enumerate(state.entries):
                if free.state == "ready" and free.owner is None and free.is_sendable:
                    claimed = _move(state, number, Replica(Phase.CLAIMED, request))
                    yield (
                        Step(number, f"claims request {request}"),
                        _write_entry(claimed, request, free._replace(owner=number)),
                    )
        case Phase.CLAIMED if is_timed_first:
            yield Step(number, "notes the time"), _move(state, number, replica._replace(phase=Phase.NOTED))
        case Phase.CLAIMED | Phase.NOTED:
            is_claimant = entry.state == "ready" and entry.owner == number
            if (Guard.EPOCH in guards and replica.is_fenced) or (Guard.COMPARE_AND_SET in guards and not is_claimant):
                yield Step(number, "finds that it was taken over"), _move(state, number, Replica())
            elif entry.is_sendable:
                send = entry.send + 1
                phase = Phase.TIMED if is_timed_first else Phase.COMMITTED
                committed = _move(state, number, replica._replace(phase=phase, send=send))
                yield (
                    Step(number, "commits sending"),
                    _write_entry(
                        committed,
                        replica.request,
                        LedgerRow("sending", number, send, is_decided=entry.is_decided),
                    ),
                )
        case Phase.COMMITTED:
            yield Step(number, "notes the time"), _move(state, number, replica._replace(phase=Phase.TIMED, age=0))
        case Phase.TIMED if Guard.LIMIT in guards and replica.age > SEND_WINDOW:
            free = entry._replace(state="ready", owner=None) if is_sending else entry
            late = _move(state, number, Replica())
            yield Step(number, "is too late to write"), _write_entry(late, replica.request, free)
        case Phase.TIMED:
            message = Message(replica.request, replica.send, number)
            written = _move(state, number, replica._replace(phase=Phase.WRITTEN, age=0))
            yield (
                Step(number, f"writes offer {replica.send}"),
                written._replace(messages=state.messages | {message}),
            )
        case Phase.WRITTEN:
            unknown = entry._replace(state="unknown", owner=None) if is_sending else entry
            given_up = _move(state, number, Replica())
            yield Step(number, "waits for no reply any more"), _write_entry(given_up, replica.request, unknown)
        case Phase.ANSWERED:
            # Evidence is monotone: the answer counts in every epoch, while its send is the last.
            known = _resolved(entry, "confirmed") if entry.send == replica.send else entry
            recorded = _move(state, number, Replica())
            yield Step(number, "records the reply"), _write_entry(recorded, replica.request, known)
        case Phase.DEAD:
            if replica.is_fenced:
                yield Step(number, "starts again"), _move(state, number, Replica())
            return
    yield Step(number, "is killed"), _kill(state, number)


def _resolver_steps(
    state: State, request: int, entry: LedgerRow, guards: frozenset[Guard]
) -> Iterator[tuple[Step, State]]:
    is_listed = any(age >= SETTLE for age in state.offers[request])
    if entry.resolver is None:
        for number, replica in enumerate(state.replicas):
            if replica.phase is Phase.IDLE:
                wait = 0 if Guard.WAIT_ANEW in guards or not entry.wait else _full_wait(guards)
                begun = entry._replace(resolver=number, wait=wait)
                yield Step(number, f"begins to resolve request {request}"), _write_entry(state, request, begun)
    elif entry.wait >= _full_wait(guards):
        resolved = _resolved(entry, "confirmed" if is_listed else "ready")
        yield (
            Step(entry.resolver, f"finds {'the' if is_listed else 'no'} offer listed"),
            _write_entry(state, request, resolved),
        )
    if state.decisions and entry.resolver is not None and _is_absent(state, request):
        decided = _write_entry(state, request, _resolved(entry, "ready")._replace(is_decided=True))
        yield (
            Step(None, f"a person finds no offer on request {request}"),
            decided._replace(decisions=state.decisions - 1),
        )
    if entry.is_decided and not is_listed and Guard.VERSION not in guards:
        yield (
            Step(None, f"a check from before that decision finds no offer on request {request}"),
            _write_entry(state, request, _resolved(entry, "ready")),
        )


def _is_absent(state: State, request: int) -> bool:
    """Return whether the service has no offer on a request, and none can arrive, so that a person may say so."""
    is_coming = any(message.request == request for message in state.messages) or any(
        (replica.request, replica.send) == (request, state.entries[request].send)
        and replica.phase in (Phase.COMMITTED, Phase.TIMED)
        for replica in state.replicas
    )
    return not is_coming and not state.offers[request]


def _resolved(entry: LedgerRow, word: str) -> LedgerRow:
    return LedgerRow(word, send=entry.send, is_decided=entry.is_decided)


def _full_wait(guards: frozenset[Guard]) -> int:
    return (
        SEND_WINDOW * (Guard.WAIT_WINDOW in guards)
        + USER_TIMEOUT * (Guard.WAIT_USER_TIMEOUT in guards)
        + SETTLE * (Guard.WAIT_SETTLE in guards)
    )


def _tick(state: State, guards: frozenset[Guard]) -> State:
    return state._replace(
        replicas=tuple(
            replica._replace(age=min(replica.age + 1, SEND_WINDOW + 1))
            if replica.phase in (Phase.NOTED, Phase.TIMED)
            else replica
            for replica in state.replicas
        ),
        entries=tuple(
            entry._replace(wait=min(entry.wait + 1, SEND_WINDOW + USER_TIMEOUT + SETTLE))
            if entry.resolver is not None
            else entry
            for entry in state.entries
        ),
        messages=frozenset(
            message._replace(age=min(message.age + 1, USER_TIMEOUT))
            for message in state.messages
            if message.age < USER_TIMEOUT or Guard.USER_TIMEOUT not in guards
        ),
        offers=tuple(tuple(min(age + 1, SETTLE) for age in ages) for ages in state.offers),
    )


def _arrive(state: State, message: Message) -> State:
    """Return the state after an offer arrived. Its reply reaches the sender only while the sender waits."""
    sender = state.replicas[message.sender]
    if (sender.phase, sender.request, sender.send) == (Phase.WRITTEN, message.request, message.send):
        state = _move(state, message.sender, sender._replace(phase=Phase.ANSWERED))
    offers = (*state.offers[message.request], 0)
    return state._replace(
        messages=state.messages - {message},
        offers=(*state.offers[: message.request], offers, *state.offers[message.request + 1 :]),
    )


def _take_over(state: State, number: int) -> State:
    """Return the state after a take-over: new epoch, free claims, offers in flight unknown, resolvers restarted."""
    replica = state.replicas[number]
    fenced = Replica() if replica.phase is Phase.IDLE else replica._replace(is_fenced=True)
    entries = []
    for entry in state.entries:
        if entry.owner == number:
            entry = entry._replace(state="unknown" if entry.state == "sending" else entry.state, owner=None)
        entries.append(_without_resolver(entry, number))
    return _move(state, number, fenced)._replace(entries=tuple(entries), take_overs=state.take_overs - 1)


def _kill(state: State, number: int) -> State:
    """Return the state after a process died. Its message may still arrive, and its claims stay until the take-over."""
    entries = tuple(_without_resolver(entry, number) for entry in state.entries)
    dead = Replica(Phase.DEAD, is_fenced=state.replicas[number].is_fenced)
    return _move(state, number, dead)._replace(entries=entries)


def _without_resolver(entry: LedgerRow, number: int) -> LedgerRow:
    return entry._replace(resolver=None) if entry.resolver == number else entry


def _move(state: State, number: int, replica: Replica) -> State:
    return state._replace(replicas=(*state.replicas[:number], replica, *state.replicas[number + 1 :]))


def _write_entry(state: State, request: int, entry: LedgerRow) -> State:
    return state._replace(entries=(*state.entries[:request], entry, *state.entries[request + 1 :]))
