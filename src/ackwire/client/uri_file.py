"""More URIs from a file of the application's own (failover's `updateURIsURL`); read once, when connecting begins."""

import logging
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ackwire.client.failover import Uri, listed_uris
from ackwire.errors import ConfigError

_log = logging.getLogger(__name__)


def read_uris(location: str, *, needed: bool) -> list[Uri]:
    """The URIs in the file at *location*, a path or a file: URL.

    A file that cannot be used is an error (`ConfigError`) if there are no other URIs, and otherwise a warning, as in
    ActiveMQ.
    """
    try:
        return _read(location)
    except ConfigError as error:
        if needed:
            raise
        _log.warning("%s; the URIs in the broker URL are used alone", error)
        return []


def _read(location: str) -> list[Uri]:
    split = urlsplit(location)
    if split.scheme not in ("", "file") or split.netloc not in ("", "localhost"):
        raise ConfigError("updateURIsURL: only files are read, and this is none")
    path = Path(unquote(split.path) if split.scheme else location)
    try:
        uris = listed_uris(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ConfigError(f"updateURIsURL: {path} cannot be read: {reason}") from None
    except ConfigError as error:
        raise ConfigError(f"updateURIsURL: {path}: {error}") from None
    if not uris:
        raise ConfigError(f"updateURIsURL: {path} holds no URI")
    return uris
