"""The demo's second part: a Spark pipeline between two queues, killed on purpose, and the audit of all that happened.

Readings are written by Spark (`enrich.py`), streamed through Spark from one queue to another, and consumed in
transactions (`readings_client.py`). The driver is killed in the middle, then the broker. A few readings expire and a
few cannot be digested. What the broker wrote about every message's life is then computed by `ackwire audit run`, and
must add up: what was lost, doubled or never acknowledged would be named.
"""

import http.client
import json
import subprocess
import time
from typing import Any, Final

from examples.stage import ACKWIRE, DemoFailed, Run, say, wait_until

READING_COUNT: Final = 200_000
KILL_DRIVER_AT: Final = 40_000
KILL_BROKER_AT: Final = 100_000
SETTLE_SECONDS: Final = 300.0
AUDIT_SECONDS: Final = 10.0
"""How long the last events may take to be in files: one ends every five seconds."""


def play(run: Run) -> None:
    """Every scene with Spark; returns when all readings have been consumed, or have had the time to."""
    say(f"starting Spark: it writes {READING_COUNT:,} readings as one batch, then streams them from queue to queue")
    job = ("enrich.py", run.http_urls, str(run.token_file), str(run.folder / "checkpoint"))
    consumer = run.example("readings_client.py", run.url)
    consumer.expect("ready")
    driver = run.example(*job, "--fill", str(READING_COUNT))
    driver.expect("streaming")
    _wait_for(run, KILL_DRIVER_AT)
    say(f"killing the driver with {_committed(run):,} readings committed, and starting it again on its checkpoint")
    driver.kill()
    driver = run.example(*job)
    driver.expect("streaming")
    _wait_for(run, KILL_BROKER_AT)
    say(f"killing the broker with {_committed(run):,} readings committed, and starting it again; Spark waits for it")
    run.replace_broker()
    driver.expect("done")
    driver.finish()
    say("Spark is done; waiting for the consumer")
    wait_until(lambda: _is_empty(run), SETTLE_SECONDS)
    consumer.finish()


def reconcile(run: Run) -> bool:
    """Let the audit run over everything since the start of the demo; whether all of it adds up."""
    say("computing the life of every message from the broker's audit: ackwire audit run")
    time.sleep(AUDIT_SECONDS)
    events, tables, page = str(run.collect_audit()), str(run.folder / "tables"), str(run.folder / "report.html")
    print(flush=True)
    code = subprocess.run([ACKWIRE, "audit", "run", events, "--out", tables], check=False).returncode
    if code > 1:
        raise DemoFailed(f"ackwire audit run ended with exit code {code}")
    subprocess.run([ACKWIRE, "audit", "report", tables, "--html", page], check=True)
    print(flush=True)
    say(f"the same with plots: {page}")
    return code == 0


# ---- what the broker says --------------------------------------------------------------------------------------


def _ask(run: Run, path: str) -> Any:
    connection = http.client.HTTPConnection(run.http.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {run.token_file.read_text().strip()}"})
        return json.load(connection.getresponse())
    finally:
        connection.close()


def _committed(run: Run) -> int:
    return max((int(cursor["committed"]) for cursor in _ask(run, "/v1/cursors")), default=0)


def _wait_for(run: Run, committed: int) -> None:
    wait_until(lambda: _committed(run) >= committed, SETTLE_SECONDS)


def _is_empty(run: Run) -> bool:
    queues = {it["destination"]: it for it in _ask(run, "/v1/destinations")}
    enriched = queues.get("queue://demo.enriched")
    return enriched is not None and not enriched["pending"] and not enriched["in_flight"]
