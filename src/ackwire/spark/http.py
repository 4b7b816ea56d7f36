"""The client of the broker's HTTP API: one connection, kept alive, and patience with a broker that is away.

A request that fails in a way that may pass (no connection, 503) is tried again with growing pauses until
`retry_timeout_seconds` have passed; one line in the log when that begins and one when it is over. All requests can be
repeated safely, except staging: that one is given another part's name for each attempt, so that rows of an attempt
whose answer was lost are never committed.
"""

import http.client
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

from ackwire.spark.errors import BadAnswer, BrokerAway, ConnectorError, Refused
from ackwire.spark.options import TOKEN_VARIABLE, Options

ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
JSON_BYTES_MAX: Final = 64 * 2**20
"""Of an answer; a list of all destinations is the longest."""

_FIRST_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 5.0
_TO_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})

_log: Final = logging.getLogger("ackwire.spark")


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """What the broker knows of a cursor."""

    name: str
    destination: str
    committed: int
    assigned: int
    waiting: int

    @property
    def end(self) -> int:
        """The number that the last message would get if all that wait were assigned now."""
        return self.assigned + self.waiting


class Patience:
    """How long requests are retried, from the first failure until a request succeeds."""

    def __init__(self, what: str, timeout_seconds: float) -> None:
        self._what = what
        self._timeout_seconds = timeout_seconds
        self._began: float | None = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._attempts = 0

    def wait(self, problem: str, retry_after_seconds: float | None = None) -> None:
        """Pause before the next attempt. Raises `BrokerAway` if there may be none."""
        now = time.monotonic()
        self._attempts += 1
        if self._began is None:
            self._began = now
            _log.warning("%s: %s; trying again for up to %g s", self._what, problem, self._timeout_seconds)
        waited = now - self._began
        left = self._timeout_seconds - waited
        if left <= 0:
            raise BrokerAway(
                f"{self._what}: {problem}; gave up after {self._attempts} attempts in {waited:.1f} s. Is the broker "
                "running, with --http, at that address? Option retryTimeout says how long to wait for it"
            )
        pause = max(self._pause_seconds, retry_after_seconds or 0.0)
        time.sleep(min(pause, left))
        self._pause_seconds = min(self._pause_seconds * 2, _PAUSE_SECONDS_MAX)

    def over(self) -> None:
        """A request succeeded: the next failure starts a new period."""
        if self._began is not None:
            _log.warning("%s: works again after %.1f s", self._what, time.monotonic() - self._began)
        self._began = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._attempts = 0


class BrokerApi:
    """The verbs of the broker's HTTP port. For one thread; not to be pickled: each process makes its own."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._url_index = 0
        self._connection: http.client.HTTPConnection | None = None
        self._is_fresh = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return self._options.urls[self._url_index % len(self._options.urls)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    # ---- cursors -----------------------------------------------------------------------------------------------

    def open_cursor(self, name: str, destination: str, selector: str | None) -> CursorInfo:
        terms = {"name": name, "destination": destination}
        if selector is not None:
            terms["selector"] = selector
        return self._cursor_info(self.json("POST", "/v1/cursors", body=terms))

    def cursor(self, name: str) -> CursorInfo:
        return self._cursor_info(self.json("GET", f"/v1/cursors/{_quoted(name)}"))

    def latest(self, name: str, after: int, limit: int) -> int:
        answer = self.json("POST", f"/v1/cursors/{_quoted(name)}/latest", body={"after": after, "limit": limit})
        latest = self._number(answer, "latest")
        if not after <= latest <= after + limit:
            raise BadAnswer(f"{self.url} says that cursor {name!r} goes to {latest}, asked for {limit} after {after}")
        return latest

    def commit_cursor(self, name: str, to: int) -> int:
        return self._number(self.json("POST", f"/v1/cursors/{_quoted(name)}/commit", body={"to": to}), "committed")

    # ---- queues ------------------------------------------------------------------------------------------------

    def queue_ranges(self, queue: str, parts: int) -> list[tuple[int, int]]:
        answer = self.json("GET", f"/v1/queues/{_quoted(queue)}/ranges", query={"parts": parts})
        try:
            return [(int(after), int(to)) for after, to in answer["ranges"]]
        except (KeyError, TypeError, ValueError):
            raise self._unexpected("ranges", answer) from None

    def dead_letter_queues(self) -> list[str]:
        answer = self.json("GET", "/v1/dead-letters")
        try:
            return [str(entry["queue"]) for entry in answer]
        except (KeyError, TypeError):
            raise self._unexpected("dead-letter queues", answer) from None

    # ---- staged batches ----------------------------------------------------------------------------------------

    def stage(
        self, producer: str, batch: int, body: bytes, destination: str | None, new_part: Callable[[], str]
    ) -> str:
        """Stage rows; returns the name of the part that has them, which is a new one for each attempt."""
        query: dict[str, Any] = {"batch": batch}
        if destination is not None:
            query["destination"] = destination
        parts: list[str] = []

        def path() -> str:
            parts.append(new_part())
            return f"/v1/producers/{_quoted(producer)}/parts/{_quoted(parts[-1])}"

        self.call("POST", path, query=query, body=body, content_type=ARROW_STREAM)
        return parts[-1]

    def commit_batch(self, producer: str, batch: int, parts: list[str]) -> bool:
        """Make the parts visible; False if that batch was committed before."""
        path = f"/v1/producers/{_quoted(producer)}/commit"
        answer = self.json("POST", path, body={"batch": batch, "parts": parts})
        if not isinstance(answer, dict) or not isinstance(answer.get("committed"), bool):
            raise self._unexpected("committed", answer)
        return bool(answer["committed"])

    def last_batch(self, producer: str) -> int | None:
        """The last batch that the producer has committed."""
        try:
            answer = self.json("GET", f"/v1/producers/{_quoted(producer)}")
        except Refused as error:
            if error.status == 404:
                return None
            raise
        last = answer.get("last_batch") if isinstance(answer, dict) else answer
        return None if last is None else self._number(answer, "last_batch")

    def drop_part(self, producer: str, part: str) -> None:
        self.call("DELETE", f"/v1/producers/{_quoted(producer)}/parts/{_quoted(part)}")

    # ---- requests ----------------------------------------------------------------------------------------------

    def json(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        """Ask for, and return, JSON."""
        encoded = None if body is None else json.dumps(body).encode()
        raw = self.call(method, path, query=query, body=encoded, content_type="application/json")
        try:
            return json.loads(raw)
        except ValueError:
            raise BadAnswer(f"{self.url} answered {method} {path} with {raw[:80]!r}: is that an Ackwire?") from None

    def call(
        self,
        method: str,
        path: str | Callable[[], str],
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """One request, repeated while the broker is away. Raises `Refused` or `BrokerAway`."""
        patience = self.patience(method, path if isinstance(path, str) else "staging rows")
        while True:
            where = path if isinstance(path, str) else path()
            try:
                response = self.request(method, where, query, body, content_type)
                raw = _read_limited(response)
            except (OSError, http.client.HTTPException) as error:
                self.on_failure(error, patience)
                continue
            if not self.check(response, raw, method, where, patience):
                continue
            patience.over()
            return raw

    def patience(self, method: str, what: str) -> Patience:
        return Patience(f"{self.url}: {method} {what}", self._options.retry_timeout_seconds)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> http.client.HTTPResponse:
        """Send one request, and return the answer's head; the body is still to be read."""
        target = f"{urlsplit(self.url).path}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": f"{ARROW_STREAM}, application/json"}
        if self._options.token is not None:
            headers["Authorization"] = f"Bearer {self._options.token}"
        if body is not None:
            headers["Content-Type"] = content_type
        connection = self._connect()
        connection.request(method, target, body=body, headers=headers)
        return connection.getresponse()

    def on_failure(self, error: Exception, patience: Patience) -> None:
        """A request got no answer: wait, unless it only met a connection that had been idle too long."""
        was_kept_alive = not self._is_fresh
        self.close()
        if was_kept_alive and isinstance(error, http.client.RemoteDisconnected | ConnectionError):
            return  # closed by the broker between two requests; a new one tells whether it is away
        self._go_on_to_next_address()
        patience.wait(_sentence(error))

    def check(self, response: http.client.HTTPResponse, raw: bytes, method: str, path: str, patience: Patience) -> bool:
        """Whether the request succeeded; False if it is to be tried again."""
        self._is_fresh = False
        if response.will_close:
            self.close()
        if response.status < 300:
            return True
        sentence, code = _error_of(raw)
        if response.status in _TO_TRY_AGAIN:
            self._go_on_to_next_address()  # of a group, only the master does what is asked
            patience.wait(f"{response.status} {sentence}", _retry_after(response))
            return False
        raise self._refusal(response.status, code, sentence, f"{method} {path}")

    def _go_on_to_next_address(self) -> None:
        if len(self._options.urls) > 1:
            self.close()
            self._url_index += 1

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            assert parts.hostname is not None
            self._connection = kind(parts.hostname, parts.port, timeout=self._options.request_timeout_seconds)
            self._is_fresh = True
        return self._connection

    def _refusal(self, status: int, code: str, sentence: str, what: str) -> ConnectorError:
        if status == 401:
            given = "the token given is not its own" if self._options.token else "no token was given"
            return Refused(
                f"{self.url} wants a token, and {given}: use option tokenFile with the broker's token file "
                f"(http.token in its data folder), option token, or the variable {TOKEN_VARIABLE} in the driver's "
                f"environment ({status} for {what})",
                status,
                code,
            )
        return Refused(f"{self.url}: {sentence} ({status} {code or 'error'} for {what})", status, code)

    def _cursor_info(self, answer: Any) -> CursorInfo:
        numbers = {name: self._number(answer, name) for name in ("committed", "assigned", "waiting")}
        return CursorInfo(str(answer.get("name")), str(answer.get("destination")), **numbers)

    def _number(self, answer: Any, name: str) -> int:
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._unexpected(name, answer)
        return value

    def _unexpected(self, name: str, answer: Any) -> BadAnswer:
        return BadAnswer(f"{self.url} should have told {name}, and answered {str(answer)[:200]}")


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _read_limited(response: http.client.HTTPResponse) -> bytes:
    raw = response.read(JSON_BYTES_MAX + 1)
    if len(raw) > JSON_BYTES_MAX:
        raise BadAnswer(f"an answer has more than {JSON_BYTES_MAX} bytes: is that an Ackwire?")
    if not response.isclosed():
        raw += response.read()  # sees the end, so that the connection can be used again
    return raw


def _sentence(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time (option requestTimeout)"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _error_of(raw: bytes) -> tuple[str, str]:
    """The sentence and the code of an error's body."""
    try:
        fields = json.loads(raw)
        return str(fields["error"]), str(fields.get("code", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        return raw[:200].decode(errors="replace").strip() or "no reason given", ""


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 5 else None
