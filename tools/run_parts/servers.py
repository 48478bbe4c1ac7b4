"""The watcher against servers with quirks; `only` is a quirk to draw alone."""

from __future__ import annotations

import logging

from tests.model.servers import QUIRKS, RunSummary, check, draw, run, watch
from tools.run_parts import Part

__all__ = ["PART"]


class ServerRuns(Part[RunSummary]):
    chunk = 50
    choices = tuple(sorted(QUIRKS))

    def run_chunk(self, seeds: range, only: str) -> RunSummary:
        # A server with quirks is a reason to warn; these have them on purpose.
        logging.disable(logging.ERROR)
        total = RunSummary()
        total.add(run(seed, (only,) if only else ()) for seed in seeds)
        return total

    def add(self, total: RunSummary, chunk: RunSummary) -> None:
        total.merge(chunk)

    def is_clean(self, total: RunSummary) -> bool:
        print(total.report())
        return total.broken == 0

    def replay(self, seed: int, only: str) -> bool:
        schedule = draw(seed, (only,) if only else ())
        log, server = watch(schedule)
        findings = check(schedule, log, server)
        print(schedule.names, schedule.quirks)
        quiet = f"{schedule.active:.0f} to {schedule.end:.0f}"
        print(f"start {schedule.start}, interval {schedule.interval}, quiet from {quiet}")
        print("sessions:", *schedule.sessions, "live:", log.live)
        for finding in findings:
            print(finding)
        wanted = next((finding.index for finding in findings if not finding.excuse), None)
        if wanted is not None:
            print(*schedule.market.versions(wanted), sep="\n")
            stamps = {
                row.stamp for at in (s.at for s in server.served) if (row := schedule.market.rows(at).get(wanted))
            }
            print("stamps:", sorted(stamps))
            lines = [
                (reported.at, f"REPORTED {reported}") for reported in log.reported if reported.index in (wanted, None)
            ]
            lines += [(at, "Degraded") for at in log.degraded] + [(at, "Recovered") for at in log.recovered]
            lines += [(claim.at, f"complete {claim.tier}, covered {claim.since:.0f}") for claim in log.claims]
            for served in server.served:
                rows = f"{len(served.rows)} rows, {wanted}: {served.rows.get(wanted)}"
                lines.append((served.at, f"{served.call} {served.note} {served.body} -> {rows}"))
            for at, line in sorted(lines):
                print(f"{at:9.1f} {line}")
        return all(finding.excuse for finding in findings)


PART = ServerRuns()
