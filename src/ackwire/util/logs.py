"""Logging: one line per record on standard error, for people (text) or for machines (JSON).

Modules log through `logging.getLogger(__name__)` and need nothing from here; the command line calls `set_up`
once. Peers choose part of what is logged (names, client ids, error texts), so whatever is not printable is
escaped: no peer can start a new line, fake a record or drive a terminal.
"""

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Final, TextIO

from ackwire.config import LogSettings

_LEVEL_NAMES: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send the records of the whole process to *stream* (standard error); replaces an earlier call."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(handler)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(settings.level.upper())


def escape(text: str) -> str:
    """*text* with everything unprintable, line ends included, as backslash escapes.

    The one function for text of peers and brokers on its way to a terminal or a log.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class TextFormatter(logging.Formatter):
    """`2026-11-15 02:20:07.123 INFO  server  peer 127.0.0.1:50412 closed: …`, local time.

    The third column is the part of Ackwire that speaks. A traceback follows on indented lines, which no
    record's first line ever is.
    """

    def format(self, record: logging.LogRecord) -> str:
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = _LEVEL_NAMES.get(record.levelname, record.levelname)
        head = f"{now}.{int(record.msecs):03d} {level:<5} {_area(record.name):<6}"
        return f"{head}  {escape(record.getMessage())}{self._traceback(record)}"

    def _traceback(self, record: logging.LogRecord) -> str:
        if not record.exc_info:
            return ""
        # Only "\n" ends a line here: splitlines() would honour characters that a peer may have sent.
        lines = self.formatException(record.exc_info).split("\n")
        return "".join(f"\n    {escape(line)}" for line in lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ts (UTC), level, logger, message, exception if any, and the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}
        # JSON escapes control characters by itself, and pure ASCII passes through any terminal and pipe.
        return json.dumps(extra | entry, default=str)


def _area(logger: str) -> str:
    """`server` for `ackwire.server.peer`; the first part of the name for others' loggers."""
    first, _, rest = logger.partition(".")
    return rest.partition(".")[0] if first == "ackwire" and rest else first


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that `set_up` knows which handler to replace."""
