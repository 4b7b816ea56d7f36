"""The token of the HTTP port: kept in a file that only its owner can read, and compared in constant time.

It never appears in a log or an error message.
"""

import hmac
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from ackwire.config import Settings
from ackwire.errors import ConfigError

TOKEN_FILE: Final = "http.token"  # noqa: S105 - a name
"""Its name in the data directory, unless `http.token_file` says otherwise."""

_LENGTH_MIN: Final = 16
_LENGTH_MAX: Final = 4096
_RANDOM_BYTES: Final = 32
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

_log = logging.getLogger(__name__)


def token_path(settings: Settings) -> Path:
    """Where the token is."""
    return Path(settings.http.token_file or Path(settings.store.data) / TOKEN_FILE)


def load_token(path: Path) -> bytes:
    """The token in *path*, made at the first time. Raises `ConfigError` if it cannot be read, made or used."""
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise ConfigError(f"the token file {path} cannot be used: {error.strerror or error}") from None


def is_authorised(header: bytes, token: bytes) -> bool:
    """Whether an Authorization header carries *token*."""
    scheme, _, given = header.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


def _make(path: Path) -> None:
    """Write a new token to a temporary file and rename it: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(_RANDOM_BYTES) + "\n")
        # A link, because it fails where another process was quicker; its token counts then.
        with suppress(FileExistsError):
            os.link(fresh, path)
            _log.info("the token for HTTP requests was written to %s", path)
    finally:
        fresh.unlink()


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        token = file.read(_LENGTH_MAX + 2).strip()
    if mode & _OTHERS:
        _log.warning("%s can be read by others than its owner (mode %o); chmod 600 it", path, stat.S_IMODE(mode))
    if not _LENGTH_MIN <= len(token) <= _LENGTH_MAX or not all(0x21 <= byte <= 0x7E for byte in token):
        raise ConfigError(
            f"{path} holds no token: it must be one word of {_LENGTH_MIN} to {_LENGTH_MAX} printable ASCII characters; "
            "delete the file, and a new one is made"
        )
    return token
