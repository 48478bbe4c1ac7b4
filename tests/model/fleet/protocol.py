"""Protocol by which replicas make at most one offer on a request, as a state machine that is searched completely.

Each write names what it expects of the row that it changes; there is no other fence. A replica is a process, which may
pause before any step, be killed, or lose the reply to a commit, and a row of the database, whose lease another replica
may end at any time. A process whose row was ended goes on until it finds that out. The schedules thus include every
behaviour of leases and clocks. Time is counted in ticks.

The model leaves out what no client can exclude: a pause between the last check of the limit and the system call that
writes, and a network that delivers later than `USER_TIMEOUT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

__all__ = [
    "FENCES", "GUARDS", "LIVENESS", "SAFETY", "Guard", "State", "Step", "can_act", "describe_violation", "initial",
    "is_settled", "steps",
]  # fmt: skip

SEND_WINDOW: Final = 1
"""Ticks after the noted time within which a write may begin."""
USER_TIMEOUT: Final = 1
"""Ticks for which the kernel keeps delivering bytes, even those of a dead process."""
SETTLE: Final = 1
"""Ticks until an offer is in the listings."""
MAX_SENDS: Final = 2
"""Sends of a request. A person's decision allows another one."""


class Guard(Enum):
    """Rule of the protocol."""

    LIMIT = "no write begins after the send window"
    LIMIT_BEFORE_COMMIT = "the send window begins before `sending` is committed"
    USER_TIMEOUT = "the kernel gives up unacknowledged bytes"
    WAIT_WINDOW = "a resolver waits for the send window"
    WAIT_USER_TIMEOUT = "a resolver waits for the kernel's time-out"
    WAIT_SETTLE = "a resolver waits until offers are listed"
    WAIT_ANEW = "the successor of a resolver waits from the start"
    FINISH_VERSION = "an outcome is committed only over the version that it is about"
    BEGIN_LIVING = "`sending` is committed only while the replica's row lives"
    BEGIN_CLAIMED = "`sending` is committed only by the claimant of the delivery"
    BEGIN_VERSION = "`sending` is committed only over the version that was read, and not over an open effect"
    SETTLE_OWNER = "a delivery is settled only by its claimant"
    ADOPT_ALL = "an adoption takes everything whose owner does not live, however old"
    ADOPT_ORPHANS = "a replica resolves its own `sending` that it knows nothing of"
    FREE_CLAIMS = "a replica frees its own claims that it knows nothing of"


GUARDS: Final = frozenset(Guard)

FENCES: Final = (Guard.BEGIN_LIVING, Guard.BEGIN_CLAIMED, Guard.BEGIN_VERSION)
"""Guards that replace each other: one of them is enough against a second offer."""

SAFETY: Final[Sequence[tuple[Guard, ...]]] = (
    *((guard,) for guard in Guard if guard.name.startswith(("LIMIT", "USER", "WAIT", "FINISH"))),
    FENCES,
)
"""Minimal sets of guards without which a request gets a second offer."""

LIVENESS: Final = (Guard.ADOPT_ALL, Guard.ADOPT_ORPHANS, Guard.FREE_CLAIMS)
"""Guards against something that stays claimed or open for good."""


class Phase(Enum):
    """Last step of a process."""

    IDLE = "idle"
    CLAIMED = "claimed"
    NOTED = "noted the time"
    COMMITTED = "committed sending"
    TIMED = "committed sending, and knows its limit"
    WRITTEN = "written"
    ANSWERED = "answered"
    DEAD = "dead"


SENDING: Final = (Phase.COMMITTED, Phase.TIMED, Phase.WRITTEN, Phase.ANSWERED)


class Check(NamedTuple):
    """Resolver of an effect in the memory of a process.

    Attributes:
        version: The version of the effect that it is about.
        wait: Ticks since it began.
        found: What it found in the listing; `None` before it looked.
    """

    version: int
    wait: int = 0
    found: bool | None = None


class Process(NamedTuple):
    """Process of a replica.

    Attributes:
        phase, request: What it does, and for which request.
        version: The version of the effect that it read, or has written by `sending`.
        age: Ticks since it noted the time.
        seat: How often it joined. Its id is `(number, seat)`.
        checks: Its resolver of each request.
    """

    phase: Phase = Phase.IDLE
    request: int = 0
    version: int = 0
    age: int = 0
    seat: int = 0
    checks: tuple[Check | None, ...] = ()


Id = tuple[int, int]


class Row(NamedTuple):
    """Delivery and effect of a request in the database.

    Attributes:
        claimant: The owner of the delivery while it is claimed.
        is_done: The delivery is done.
        effect: The state of the effect; empty without one.
        owner: The owner of the effect while it is open.
        version: The effect's version, which each write but an adoption raises.
        sends: How often `sending` was committed.
        is_decided: A person has decided that a send was not taken.
        is_waited: Somebody has waited for it. Only without `WAIT_ANEW`.
    """

    claimant: Id | None = None
    is_done: bool = False
    effect: str = ""
    owner: Id | None = None
    version: int = 0
    sends: int = 0
    is_decided: bool = False
    is_waited: bool = False

    @property
    def is_open(self) -> bool:
        return self.effect in ("sending", "unknown")

    @property
    def is_sendable(self) -> bool:
        """Return whether the bound of the model allows another send."""
        return self.sends < MAX_SENDS + self.is_decided


class Message(NamedTuple):
    """Offer that was sent and has not arrived."""

    request: int
    version: int
    sender: Id
    age: int = 0


class State(NamedTuple):
    """All processes, the database, the network and the service.

    Attributes:
        living: The ids of the rows of replicas whose lease was not ended.
        offers: The age of each offer on a request.
        decisions: How many decisions of a person may still come.
        faults: How many kills and lost replies may still come.
        seats: How often a process may join.
    """

    processes: tuple[Process, ...]
    living: frozenset[Id]
    rows: tuple[Row, ...]
    messages: frozenset[Message]
    offers: tuple[tuple[int, ...], ...]
    decisions: int
    faults: int
    seats: int


class Step(NamedTuple):
    """Step of a schedule, in words; `replica` is `None` for time, the network and persons. A fault is never needed."""

    replica: int | None
    text: str
    is_fault: bool = False


def initial(*, requests: int, faults: int, decisions: int, seats: int) -> State:
    """Return the initial state of two replicas."""
    process = Process(checks=(None,) * requests)
    return State(
        (process, process), frozenset({(0, 0), (1, 0)}), (Row(),) * requests, frozenset(), ((),) * requests,
        decisions, faults, seats,
    )  # fmt: skip


def describe_violation(state: State) -> str | None:
    """Return the violation of a state, or `None`."""
    for number, process in enumerate(state.processes):
        row = state.rows[process.request]
        is_working = process.phase in (Phase.CLAIMED, Phase.NOTED) and (number, process.seat) in state.living
        if is_working and row.claimant != (number, process.seat):
            return f"the claim of replica {number}, which lives, was taken"
    for request, (row, offers) in enumerate(zip(state.rows, state.offers, strict=True)):
        if len(offers) > 1:
            return f"request {request} has {len(offers)} offers"
        if row.effect == "confirmed" and not offers:
            return f"request {request} is confirmed without an offer"
    return None


def is_settled(state: State) -> bool:
    """Return whether nothing is claimed or open, and each request has its offer or no send left."""
    return all(not row.is_open and row.claimant is None and (row.is_done or not row.is_sendable) for row in state.rows)


def can_act(state: State, number: int) -> bool:
    """Return whether a replica can go on alone, while the other one is dead or frozen for good."""
    process = state.processes[number]
    is_in = process.phase is not Phase.DEAD and (number, process.seat) in state.living
    return is_in or process.seat < state.seats


def steps(state: State, guards: frozenset[Guard] = GUARDS) -> Iterator[tuple[Step, State]]:
    """Yield each possible next step, with the state after it."""
    yield Step(None, "a tick passes"), _tick(state, guards)
    for message in state.messages:
        yield Step(None, f"offer {message.version} on request {message.request} arrives"), _arrive(state, message)
    for number, process in enumerate(state.processes):
        me = (number, process.seat)
        if process.phase is Phase.DEAD:
            if process.seat < state.seats:
                yield Step(number, "starts again"), _join(state, number)
            continue
        if state.faults:
            dead = Process(Phase.DEAD, seat=process.seat, checks=(None,) * len(state.rows))
            yield Step(number, "is killed", True), _move(state, number, dead)._replace(faults=state.faults - 1)
        yield from _work(state, number, process, me, guards)
        if me in state.living:
            yield from _beats(state, number, process, me, guards)
        elif process.phase is Phase.IDLE and process.seat < state.seats:
            yield Step(number, "finds that its lease is over, and joins again"), _join(state, number)
        for request in range(len(state.rows)):
            yield from _resolver(state, number, process, request, guards)
    for request, row in enumerate(state.rows):
        if state.decisions and row.is_open and _is_absent(state, request):
            decided = _resolved(row, "absent")._replace(is_decided=True)
            after = _write(state, request, decided)._replace(decisions=state.decisions - 1)
            yield Step(None, f"a person finds no offer on request {request}", True), after


def _work(
    state: State, number: int, process: Process, me: Id, guards: frozenset[Guard]
) -> Iterator[tuple[Step, State]]:
    request = process.request
    row = state.rows[request]
    is_timed_first = Guard.LIMIT_BEFORE_COMMIT in guards
    match process.phase:
        case Phase.IDLE:
            yield from _claims(state, number, process, me, guards)
        case Phase.CLAIMED if is_timed_first:
            yield Step(number, "notes the time"), _move(state, number, process._replace(phase=Phase.NOTED))
        case Phase.CLAIMED | Phase.NOTED:
            expected = (
                (Guard.BEGIN_LIVING not in guards or me in state.living)
                and (Guard.BEGIN_CLAIMED not in guards or row.claimant == me)
                and (Guard.BEGIN_VERSION not in guards or (row.version == process.version and not row.is_open))
            )
            if not expected:
                yield Step(number, "may not begin"), _release(state, number, me, guards)
            elif row.is_sendable:
                version = row.version + 1
                begun = row._replace(effect="sending", owner=me, version=version, sends=row.sends + 1)
                committed = _write(state, request, begun)
                phase = Phase.TIMED if is_timed_first else Phase.COMMITTED
                after = process._replace(phase=phase, version=version)
                yield Step(number, "commits sending"), _move(committed, number, after)
                if state.faults:
                    lost = _move(committed, number, _idle(process))._replace(faults=state.faults - 1)
                    yield Step(number, "commits sending, and gets no reply", True), lost
            else:
                yield Step(number, "reaches the bound of the model"), _release(state, number, me, guards)
        case Phase.COMMITTED:
            yield Step(number, "notes the time"), _move(state, number, process._replace(phase=Phase.TIMED, age=0))
        case Phase.TIMED if Guard.LIMIT in guards and process.age > SEND_WINDOW:
            yield Step(number, "is too late to write"), _finish(state, number, me, "absent", guards)
        case Phase.TIMED:
            message = Message(request, process.version, me)
            written = _move(state, number, process._replace(phase=Phase.WRITTEN, age=0))
            yield Step(number, f"writes offer {process.version}"), written._replace(messages=state.messages | {message})
        case Phase.WRITTEN:
            yield Step(number, "waits for no reply any more"), _finish(state, number, me, "unknown", guards)
        case Phase.ANSWERED:
            yield Step(number, "records the reply"), _finish(state, number, me, "confirmed", guards)
        case Phase.DEAD:
            pass


def _claims(
    state: State, number: int, process: Process, me: Id, guards: frozenset[Guard]
) -> Iterator[tuple[Step, State]]:
    """Yield the claims of a process, which may commit after its row was ended: their condition locks no row."""
    for request, row in enumerate(state.rows):
        if row.claimant == me and Guard.FREE_CLAIMS in guards:
            yield Step(number, f"frees request {request}"), _write(state, request, row._replace(claimant=None))
        if row.claimant is not None or row.is_done or row.is_open:
            continue
        if row.effect == "confirmed":
            done = row._replace(is_done=True)
            yield Step(number, f"returns the recorded offer on request {request}"), _write(state, request, done)
        elif row.is_sendable:
            claimed = _write(state, request, row._replace(claimant=me))
            after = process._replace(phase=Phase.CLAIMED, request=request, version=row.version)
            yield Step(number, f"claims request {request}"), _move(claimed, number, after)
            if state.faults:
                lost = claimed._replace(faults=state.faults - 1)
                yield Step(number, f"claims request {request}, and gets no reply", True), lost


def _beats(
    state: State, number: int, process: Process, me: Id, guards: frozenset[Guard]
) -> Iterator[tuple[Step, State]]:
    """Yield the beats of a living replica: it may end any other row, and adopts what belongs to ended ones."""
    if Guard.ADOPT_ALL in guards:
        adopted = _adopt(state, number, me, None, guards)
        if adopted != state:
            yield Step(number, "adopts"), adopted
    for other in state.living - {me}:
        ended = state._replace(living=state.living - {other})
        only = other if Guard.ADOPT_ALL not in guards else None
        # It is unknown whether the other one is dead or frozen.
        yield Step(number, f"ends replica {other}, and adopts"), _adopt(ended, number, me, only, guards)
    for request, row in enumerate(state.rows):
        is_mine = row.owner == me and process.checks[request] is None
        is_in_hand = process.phase in SENDING and (process.request, process.version) == (request, row.version)
        if not is_mine or is_in_hand:
            continue
        if row.effect == "unknown" or (row.effect == "sending" and Guard.ADOPT_ORPHANS in guards):
            yield Step(number, f"begins to resolve request {request}"), _check(state, number, request, guards)


def _adopt(state: State, number: int, me: Id, only: Id | None, guards: frozenset[Guard]) -> State:
    """Take what belongs to ended replicas, or to one of them. Effects keep their state and their version."""
    for request, row in enumerate(state.rows):
        for name in ("claimant", "owner"):
            it = getattr(row, name)
            if it is None or it in state.living or only not in (None, it):
                continue
            if name == "claimant":
                row = row._replace(claimant=None)
                state = _write(state, request, row)
            elif row.is_open:
                row = row._replace(owner=me)
                state = _check(_write(state, request, row), number, request, guards)
    return state


def _resolver(
    state: State, number: int, process: Process, request: int, guards: frozenset[Guard]
) -> Iterator[tuple[Step, State]]:
    check, row = process.checks[request], state.rows[request]
    if check is None:
        return
    if check.found is not None:
        word = "confirmed" if check.found else "absent"
        after = _set_check(state, number, request, None)
        if row.version == check.version or Guard.FINISH_VERSION not in guards:
            after = _write(after, request, _resolved(row, word))
        yield Step(number, f"commits that offer {check.version} on request {request} is {word}"), after
    elif row.version != check.version and Guard.FINISH_VERSION in guards:
        yield Step(number, f"finds request {request} resolved"), _set_check(state, number, request, None)
    elif check.wait >= _full_wait(guards):
        is_listed = any(age >= SETTLE for age in state.offers[request])
        looked = _set_check(state, number, request, check._replace(found=is_listed))
        yield Step(number, f"finds {'the' if is_listed else 'no'} offer listed on request {request}"), looked


def _finish(state: State, number: int, me: Id, word: str, guards: frozenset[Guard]) -> State:
    """Commit the outcome of a send, also for another owner; settle the delivery if this one still claims it."""
    process = state.processes[number]
    row = state.rows[process.request]
    if row.version == process.version or Guard.FINISH_VERSION not in guards:
        finished = _resolved(row, word)
        if word == "unknown":
            finished = finished._replace(owner=me)
        state = _write(state, process.request, finished)
    return _release(state, number, me, guards, is_done=word == "confirmed")


def _release(state: State, number: int, me: Id, guards: frozenset[Guard], *, is_done: bool = False) -> State:
    process = state.processes[number]
    row = state.rows[process.request]
    if row.claimant == me or (Guard.SETTLE_OWNER not in guards and row.claimant is not None):
        state = _write(state, process.request, row._replace(claimant=None, is_done=row.is_done or is_done))
    return _move(state, number, _idle(process))


def _join(state: State, number: int) -> State:
    """Join under a new id. The row of the earlier one stays until its lease is over."""
    seat = state.processes[number].seat + 1
    joined = _move(state, number, Process(seat=seat, checks=(None,) * len(state.rows)))
    return joined._replace(living=state.living | {(number, seat)})


def _check(state: State, number: int, request: int, guards: frozenset[Guard]) -> State:
    row = state.rows[request]
    wait = 0
    if Guard.WAIT_ANEW not in guards:
        wait = _full_wait(guards) if row.is_waited else 0
        state = _write(state, request, row._replace(is_waited=True))
    return _set_check(state, number, request, Check(row.version, wait))


def _set_check(state: State, number: int, request: int, check: Check | None) -> State:
    process = state.processes[number]
    checks = (*process.checks[:request], check, *process.checks[request + 1 :])
    return _move(state, number, process._replace(checks=checks))


def _is_absent(state: State, request: int) -> bool:
    """Return whether the service has no offer on a request, and none can arrive, so that a person may say so."""
    row = state.rows[request]
    is_coming = any(message.request == request for message in state.messages) or any(
        (process.request, process.version) == (request, row.version) and process.phase in (Phase.COMMITTED, Phase.TIMED)
        for process in state.processes
    )
    return not is_coming and not state.offers[request]


def _resolved(row: Row, word: str) -> Row:
    return row._replace(effect=word, owner=None, version=row.version + 1, is_waited=False)


def _full_wait(guards: frozenset[Guard]) -> int:
    return (
        SEND_WINDOW * (Guard.WAIT_WINDOW in guards)
        + USER_TIMEOUT * (Guard.WAIT_USER_TIMEOUT in guards)
        + SETTLE * (Guard.WAIT_SETTLE in guards)
    )


def _tick(state: State, guards: frozenset[Guard]) -> State:
    limit = SEND_WINDOW + USER_TIMEOUT + SETTLE
    processes = tuple(
        process._replace(
            age=min(process.age + 1, SEND_WINDOW + 1) if process.phase in (Phase.NOTED, Phase.TIMED) else process.age,
            checks=tuple(
                check if check is None or check.found is not None else check._replace(wait=min(check.wait + 1, limit))
                for check in process.checks
            ),
        )
        for process in state.processes
    )
    messages = frozenset(
        message._replace(age=min(message.age + 1, USER_TIMEOUT))
        for message in state.messages
        if message.age < USER_TIMEOUT or Guard.USER_TIMEOUT not in guards
    )
    offers = tuple(tuple(min(age + 1, SETTLE) for age in ages) for ages in state.offers)
    return state._replace(processes=processes, messages=messages, offers=offers)


def _arrive(state: State, message: Message) -> State:
    """Return the state after an offer arrived. Its reply reaches the sender only while the sender waits."""
    number, seat = message.sender
    sender = state.processes[number]
    expected = (Phase.WRITTEN, message.request, message.version, seat)
    if (sender.phase, sender.request, sender.version, sender.seat) == expected:
        state = _move(state, number, sender._replace(phase=Phase.ANSWERED))
    offers = (*state.offers[message.request], 0)
    return state._replace(
        messages=state.messages - {message},
        offers=(*state.offers[: message.request], offers, *state.offers[message.request + 1 :]),
    )


def _idle(process: Process) -> Process:
    return Process(seat=process.seat, checks=process.checks)


def _move(state: State, number: int, process: Process) -> State:
    return state._replace(processes=(*state.processes[:number], process, *state.processes[number + 1 :]))


def _write(state: State, request: int, row: Row) -> State:
    return state._replace(rows=(*state.rows[:request], row, *state.rows[request + 1 :]))
