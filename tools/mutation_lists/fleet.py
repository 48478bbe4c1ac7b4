"""Mutations of a fleet on PostgreSQL: its fences, leases, claims, take-overs and sends."""

from __future__ import annotations

from typing import Final

from tools.mutation_lists import Mutation, one

__all__ = ["MUTATIONS", "TESTS"]

TESTS: Final = ("tests/unit/store/postgres", "tests/unit/bot/runtime/fleet")
"""Tests that run where a mutation names none."""

_FLEET: Final = "tests/unit/store/postgres/test_fleet.py"
_REPLICA: Final = "tests/unit/store/postgres/test_replica.py"
_WORK: Final = "tests/unit/store/postgres/test_work.py"
_CONNECTION: Final = "tests/unit/store/postgres/test_connection.py"
_ADDRESS: Final = "tests/unit/store/postgres/test_address.py"
_FROZEN: Final = "tests/unit/store/postgres/test_frozen.py"
_ADOPTION: Final = "tests/unit/bot/runtime/fleet/test_adoption.py"
_LATE: Final = "tests/unit/bot/offers/test_late_replies.py"

MUTATIONS: Final = (
    one(
        "fence: a replica that was taken over goes on writing",
        "store/postgres/replica_sql.py",
        'f"SELECT FROM freight_exchange.replica WHERE {_OWN} AND epoch = 0"',
        'f"SELECT FROM freight_exchange.replica WHERE {_OWN}"',
        f"{_FLEET}::TestTakeOver::test_ends_all_writes_of_the_replica",
    ),
    one(
        "fence: the epoch is compared, and not locked",
        "store/postgres/replica_sql.py",
        'FENCE_LOCK: Final = "FOR KEY SHARE"',
        'FENCE_LOCK: Final = ""',
        f"{_FLEET}::TestTakeOver::test_waits_for_a_transaction_of_the_replica",
    ),
    one(
        "fence: a claim has none",
        "store/postgres/work_sql.py",
        "WHERE EXISTS (SELECT FROM fence) AND delivery.binding",
        "WHERE delivery.binding",
        f"{_FLEET}::TestTakeOver::test_during_a_claim_leaves_the_delivery_to_others",
    ),
    one(
        "lease: the heartbeat waits for a transaction of its replica",
        "store/postgres/replica_sql.py",
        'FENCE_LOCK: Final = "FOR KEY SHARE"',
        'FENCE_LOCK: Final = "FOR UPDATE"',
        f"{_REPLICA}::test_heartbeat_renews_the_lease_during_a_transaction_of_its_replica",
    ),
    one(
        "lease: it follows the clock of the machine",
        "store/postgres/replica.py",
        "        row = connection.row(replica_sql.BEAT, self._values)\n",
        "        now = f\"to_timestamp({__import__('time').time()})\"\n"
        '        row = connection.row(replica_sql.BEAT.replace("clock_timestamp()", now), self._values)\n',
        f"{_REPLICA}::test_lease_follows_the_clock_of_the_database",
    ),
    one(
        "term: a commit of a scan does not compare its epoch",
        "store/postgres/replica_sql.py",
        "WHERE id = %(binding)s AND term_epoch = %(epoch)s FOR NO KEY UPDATE",
        "WHERE id = %(binding)s FOR NO KEY UPDATE",
        f"{_FLEET}::TestTerm::test_goes_to_another_replica_once_the_lease_is_over",
    ),
    one(
        "term: its epoch stays as it is",
        "store/postgres/replica_sql.py",
        "SET term_epoch = term_epoch + 1, term_replica = %(replica)s",
        "SET term_replica = %(replica)s",
        f"{_FLEET}::TestTerm::test_goes_to_another_replica_once_the_lease_is_over",
    ),
    one(
        "term: it is kept until the handlers have ended",
        "bot/runtime/fleet/term.py",
        "        # Another replica may scan from now on, while this one drains.\n"
        "        await self._feed.__aexit__(None, None, None)\n",
        "",
        "tests/unit/bot/runtime/fleet/test_term.py::test_replica_gives_the_term_back_before_its_handlers_end",
    ),
    one(
        "claims: they read what waits for a removed handler",
        "store/postgres/schema.py",
        "(binding, (handler || ''), not_before,",
        "(binding, not_before,",
        "tests/unit/store/postgres/test_claim_costs.py::test_deliveries_of_a_removed_handler_cost_nothing",
    ),
    one(
        "claims: they wait for one that is locked",
        "store/postgres/work_sql.py",
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE",
        f"{_FLEET}::TestClaims::test_skip_deliveries_that_another_replica_is_claiming",
    ),
    one(
        "claims: two of one request by replicas with different handlers",
        "store/postgres/schema.py",
        "CREATE UNIQUE INDEX delivery_claimed",
        "CREATE INDEX delivery_claimed",
        f"{_WORK}::test_replicas_with_different_handlers_claim_one_delivery_of_a_request",
    ),
    Mutation(
        "claims: two of one request, one after the other",
        (
            (
                "store/postgres/work_sql.py",
                "AND {_NAME} = wanted.handler AND {_IS_CLAIMABLE}\n                AND NOT EXISTS",
                "AND {_NAME} = wanted.handler\n                AND NOT EXISTS",
            ),
            ("store/postgres/schema.py", "CREATE UNIQUE INDEX delivery_claimed", "CREATE INDEX delivery_claimed"),
        ),
        (f"{_FLEET}::TestClaims::test_of_one_request_are_made_by_one_replica",),
    ),
    one(
        "take-over: what a living replica sends is adopted",
        "store/postgres/work_sql.py",
        "AND state IN ('sending', 'unknown')\n"
        "        AND owner IN (SELECT id FROM freight_exchange.replica WHERE binding = %(binding)s AND has_left)",
        "AND state IN ('sending', 'unknown')",
        f"{_FLEET}::TestTakeOver::test_adopts_claims_and_open_effects",
    ),
    one(
        "take-over: bytes that the kernel still sends are not waited for",
        "store/postgres/seat.py",
        "1.01 * (SEND_WINDOW + SEND_TIMEOUT)",
        "SEND_WINDOW",
        f"{_FLEET}::TestTakeOver::test_adopts_claims_and_open_effects",
    ),
    one(
        "take-over: an offer that may still arrive is looked for at once",
        "bot/offers/in_doubt.py",
        "await self._arrivals.wait(record, wait)",
        "await self._arrivals.wait(record, 0)",
        "tests/unit/bot/offers/test_taken_over.py",
    ),
    one(
        "take-over: a replica that runs leaves the offers of an ended one",
        "bot/runtime/fleet/adoption.py",
        "        await ledger.adopt(adoption)\n",
        "",
        _ADOPTION,
    ),
    one(
        "take-over: a late reply is written over what was decided meanwhile",
        "store/postgres/work.py",
        "AND key = %(key)s FOR NO KEY UPDATE",
        "AND key = %(key)s",
        f"{_WORK}::test_late_reply_is_written_over_nothing_but_what_it_was_decided_by",
    ),
    one(
        "send: its time begins after it was recorded",
        "bot/offers/sender.py",
        "        limit = SendLimit(clock.now(), SEND_WINDOW)\n"
        '        record = await self._repository.advance(record, "sending")\n',
        '        record = await self._repository.advance(record, "sending")\n'
        "        limit = SendLimit(clock.now(), SEND_WINDOW)\n",
        "tests/unit/bot/offers/test_send_window.py",
    ),
    one(
        "send: it is not recorded before the offer leaves",
        "bot/offers/sender.py",
        'advance(record, "sending")',
        'advance(record, "intent", step="sending")',
        "tests/unit/bot/runtime/fleet/test_fleet_crashes.py",
    ),
    one(
        "send: the rest of an offer leaves when its time is over",
        "transport/message.py",
        'if self._limit is not None and event.endswith(".started") and self._limit.is_over:',
        "if False:",
        "tests/unit/transport/test_message.py",
    ),
    one(
        "send: the kernel goes on for a quarter of an hour",
        "transport/http/backend.py",
        "for option in _SEND_TIMEOUT:",
        "for option in ():",
        "tests/faults/test_killed.py::test_sockets_have_the_options_that_bound_an_absence",
    ),
    one(
        "resolve: an offer that a replica is sending is given back to its handler",
        "bot/ops/decisions.py",
        'if record.state == "sending" and record.key not in',
        "if False and record.key not in",
        "tests/unit/bot/ops/test_admin_in_fleet.py::test_what_a_replica_is_sending_is_not_in_doubt",
    ),
    one(
        "copy: the file is marked after the commit alone",
        "store/postgres/copy.py",
        "        mark_begun(source, path, copy)\n",
        "",
        "tests/unit/store/postgres/test_copy.py::TestInterruptedCopy",
    ),
    one(
        "copy: one that was begun is begun again in another database",
        "store/postgres/copy.py",
        "if begun.database != identity:",
        "if False:",
        "tests/unit/store/postgres/test_copy.py::TestInterruptedCopy",
    ),
    one(
        "database: commits do not wait for its disk",
        "store/postgres/session.py",
        '        "SET LOCAL synchronous_commit = on",\n',
        "",
        f"{_CONNECTION}::test_ledger_is_durable_on_a_server_that_does_not_wait_for_its_disk",
    ),
    one(
        "database: a standby ends the bot",
        "store/postgres/errors.py",
        "if isinstance(error, errors.ReadOnlySqlTransaction):",
        "if False:",
        f"{_CONNECTION}::test_standby_is_away",
    ),
    one(
        "database: a traceback shows its password",
        "store/postgres/store.py",
        "        address = DatabaseAddress(address)\n",
        "",
        f"{_ADDRESS}::test_unreadable_address_is_refused_without_the_password",
    ),
    one(
        "database: a password that is part of the user is shown",
        "store/postgres/connection.py",
        """    is_sound = is_sound and ":" not in str(parts.get("user", ""))\n""",
        "",
        f"{_ADDRESS}::test_unreadable_address_is_refused_without_the_password",
    ),
    one(
        "database: the value of an invalid option is shown",
        "store/postgres/errors.py",
        """    (re.compile(r"invalid (\\w+) value"), r"has an invalid \\1: correct its address"),\n""",
        "",
        f"{_ADDRESS}::test_invalid_option_is_named_without_its_value",
    ),
    one(
        "restored: a replica writes on into the table of a dump",
        "store/postgres/replica_sql.py",
        '_OWN: Final = f"id = %(replica)s AND {FILE} = %(relation)s"',
        '_OWN: Final = "id = %(replica)s"',
        "tests/unit/store/postgres/test_history.py",
    ),
    one(
        "restored: only a table that was made anew shows a restored dump",
        "store/postgres/history.py",
        'FILE: Final = "pg_relation_filenode(tableoid)"',
        'FILE: Final = "tableoid"',
        "tests/unit/store/postgres/test_history.py",
    ),
    one(
        "restored: a connection goes on with a server that has started anew",
        "store/postgres/connection.py",
        "if is_cut and self._started != before:",
        "if False:",
        f"{_CONNECTION}::TestConnectionCutWhileIdle",
    ),
    one(
        "resolve: an offer that was just taken over is given back to its handler",
        "bot/ops/decisions.py",
        "return 0.0 if record.checks or record.parked else adoption.wait",
        "return 0.0",
        "tests/unit/bot/ops/test_admin_in_fleet.py",
    ),
    one(
        "resolve: an offer that was sent again during the wait is given back to its handler",
        "bot/ops/decisions.py",
        "return record.state in UNSETTLED and send(record) == send(earlier)",
        "return record.state in UNSETTLED",
        "tests/unit/bot/ops/test_admin_in_fleet.py::test_change_during_the_wait_is_kept",
    ),
    one(
        "connection: a reply that comes byte by byte never ends",
        "store/postgres/connection.py",
        "if now > began + longest:",
        "if False:",
        f"{_CONNECTION}::test_reply_that_never_ends_is_cut_off",
    ),
    one(
        "resolve: a decision is dated at the last scan, before the offer",
        "bot/ops/decisions.py",
        "at=max(time, record.at)",
        "at=time",
        "tests/unit/bot/ops/test_admin_in_fleet.py::test_decision_is_not_earlier_than_what_it_decides",
    ),
    one(
        "replay: a delivery is due by the clock of the command",
        "bot/ops/admin.py",
        "feed_state.State.load(state).watermark.time\n",
        "feed_state.State.load(state).watermark.time_at("
        'feed_state.Reading(boot_id="", boot=0.0, wall=__import__("time").time()))\n',
        "tests/unit/bot/ops/test_admin_in_fleet.py::test_replayed_delivery_is_due_by_any_clock_of_the_command",
    ),
    one(
        "database: a connection that was cut while idle costs the seat",
        "store/postgres/connection.py",
        "> _IDLE and self._was_cut()",
        "> _IDLE and False",
        f"{_CONNECTION}::TestConnectionCutWhileIdle",
    ),
    one(
        "database: a bot that joins again for ever says so once",
        "bot/runtime/fleet/loss_log.py",
        "if has_worked or now >= self._is_quiet_until:",
        "if has_worked or self._is_quiet_until < 0:",
        "tests/unit/bot/runtime/fleet/test_term.py::test_store_that_is_away_after_each_join_is_logged_once_a_minute",
    ),
    one(
        "database: a new connection of the pulse does not listen",
        "store/postgres/seat.py",
        "if not connection.is_open or self._listens_on != connection.count:",
        "if not connection.is_open or not self._listens_on:",
        f"{_CONNECTION}::TestConnectionCutWhileIdle",
    ),
    one(
        "database: a statement runs on after it was given up",
        "store/postgres/session.py",
        """{**_DEFAULTS, "statement_timeout": f"{(reply_timeout + _MARGIN) * 1000:.0f}"}""",
        """{**_DEFAULTS, "statement_timeout": "0"}""",
        _CONNECTION,
    ),
    one(
        "database: a reply that comes in parts counts as late",
        "store/postgres/connection.py",
        "until = now + connection.reply_timeout",
        "pass",
        _CONNECTION,
    ),
    one(
        "database: a count of waiting deliveries has no end",
        "store/postgres/work_sql.py",
        '{_OVERDUE.format(limit="%(limit)s")} LIMIT %(limit)s)',
        '{_OVERDUE.format(limit="ALL")})',
        "tests/unit/store/postgres/test_claim_costs.py",
    ),
    one(
        "database: a statement waits for a lock after it was given up",
        "store/postgres/session.py",
        '    "lock_timeout": "5000",\n',
        "",
        f"{_CONNECTION}::test_statement_that_waits_for_a_lock_does_not_stay_in_the_server",
    ),
    one(
        "frozen: the values of a page follow their statement",
        "store/postgres/connection.py",
        "prepare = True if self._depth and parameters else None",
        "prepare = None",
        f"{_FROZEN}::test_replica_that_is_cut_off_in_the_middle_of_a_page_does_not_keep_its_locks",
    ),
    one(
        "frozen: a page is one statement, however long it is sent",
        "store/postgres/term.py",
        "if part and length + size(row) > _PART:",
        "if False:",
        "tests/unit/store/postgres/test_term.py::test_long_page_is_sent_in_parts",
    ),
    one(
        "frozen: a transaction may last for ever",
        "store/postgres/session.py",
        "if is_limited and server_version >= _HAS_TRANSACTION_TIMEOUT:",
        "if False:",
        f"{_CONNECTION}::test_transaction_ends_though_its_client_is_not_idle",
    ),
    one(
        "frozen: a replica waits for the term of one that is frozen",
        "store/postgres/replica.py",
        "            end_frozen(connection)\n",
        "",
        f"{_FROZEN}::test_frozen_replica_loses_the_term",
    ),
    one(
        "frozen: a replica passes over the work of one that is frozen",
        "store/postgres/seat.py",
        "        end_frozen(connection)\n",
        "",
        f"{_FROZEN}::test_work_of_a_frozen_replica_is_adopted",
    ),
    one(
        "frozen: no replica joins beside one that is frozen",
        "store/postgres/store.py",
        "        end_frozen(connection)\n",
        "",
        f"{_FROZEN}::test_frozen_replica_keeps_no_other_one_from_joining",
    ),
    one(
        "frozen: a late replica counts as frozen",
        "store/postgres/frozen.py",
        "        AND state_change < clock_timestamp() - make_interval(secs => %(silence)s)\n",
        "",
        f"{_FROZEN}::test_replica_is_not_ended_while_a_living_one_may_be_silent",
    ),
    one(
        "frozen: a replica that writes without its fence keeps its locks",
        "store/postgres/frozen.py",
        "mode IN ('RowShareLock', 'RowExclusiveLock')",
        "mode = 'RowShareLock' AND relname = 'replica'",
        f"{_FROZEN}::test_replica_that_is_frozen_while_it_gives_the_term_back_does_not_keep_it",
    ),
    one(
        "frozen: a copy counts as frozen while it reads its file",
        "store/postgres/frozen.py",
        " AND NOT bool_or(mode = 'ExclusiveLock')",
        "",
        "tests/unit/store/postgres/test_copy.py::test_copy_is_not_ended_by_a_replica_that_starts_meanwhile",
    ),
    one(
        "frozen: the connection of a lost machine stays for hours",
        "store/postgres/session.py",
        '    "tcp_keepalives_idle": "10",\n',
        "",
        f"{_CONNECTION}::test_server_ends_the_connection_of_a_machine_that_is_lost",
    ),
    one(
        "database: two replicas migrate it at once",
        "store/postgres/schema.py",
        '        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))\n',
        "",
        "tests/unit/store/postgres/test_schema.py",
    ),
    one(
        "retention: the row of a replica with an offer in doubt goes",
        "store/postgres/replica_sql.py",
        "AND state IN ('sending', 'unknown') AND owner = gone.id",
        "AND false",
        f"{_FLEET}::test_replicas_that_ended_long_ago_are_forgotten_unless_they_own_something",
    ),
    one(
        "wake-up: new deliveries send no notification",
        "store/postgres/term.py",
        "                self._replica.notify(connection)\n",
        "",
        f"{_FLEET}::test_notification_wakes_other_replicas",
    ),
    one(
        "wake-up: nothing makes up for a lost notification",
        "bot/runtime/fleet/membership.py",
        "if has_news or anyio.current_time() >= due:",
        "if has_news:",
        "tests/unit/bot/runtime/fleet/test_membership.py",
    ),
    one(
        "version: the result of a check is written over a newer doubt",
        "bot/versions.py",
        "expected_state=replaces.state, expected_at=replaces.at)",
        "expected_state=replaces.state)",
        "tests/unit/bot/offers/test_newer_doubts.py",
    ),
    one(
        "version: the database compares the state alone",
        "store/postgres/work_sql.py",
        "AND at = coalesce(%(expected_at)s::double precision, at)",
        "",
        "tests/unit/store/test_work_transactions.py::test_effect_is_written_only_over_the_version_of_its_expected_time",
    ),
    one(
        "version: a file compares the state alone",
        "store/sqlite/effect_sql.py",
        "AND at = coalesce(?, at)",
        "AND coalesce(?, at) IS NOT NULL",
        "tests/unit/store/test_work_transactions.py::test_effect_is_written_only_over_the_version_of_its_expected_time",
    ),
    one(
        "late reply: it is taken for that to a later send",
        "bot/offers/repository.py",
        "stored.in_doubt_since == record.at",
        "stored.resends == record.resends",
        f"{_LATE}::test_reply_to_an_offer_that_is_sent_again_is_an_alarm",
    ),
    one(
        "late reply: one that an earlier try has recorded is taken for another's",
        "bot/offers/sender.py",
        "if is_version(await self._repository.find_one(record.request, record.key), answered):",
        "if False:",
        f"{_LATE}::test_reply_whose_commit_was_not_acknowledged_is_that_of_the_handler",
    ),
    one(
        "late reply: another bid is taken for its own",
        "bot/offers/sender.py",
        "return stored.resends == record.resends if None in ids else ids[0] == ids[1]",
        "return stored.resends == record.resends",
        f"{_LATE}::test_reply_to_an_offer_that_was_taken_meanwhile_is_an_alarm_if_its_bid_is_another",
    ),
)
