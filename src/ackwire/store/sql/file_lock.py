"""The lock of a SQLite file, in a file beside it; servers have locks of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ackwire.config.store_uri import StoreUri
from ackwire.errors import ConfigError
from ackwire.store.files import LockHeld, OsFiles


@contextmanager
def locked_file(uri: StoreUri, holder: str) -> Iterator[None]:
    """Exclude other brokers and tools from a SQLite file. Raises `ConfigError`."""
    if uri.scheme != "sqlite":
        yield
        return
    path = Path(f"{uri.path}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = OsFiles().lock(path, holder)
    except LockHeld as held:
        raise ConfigError(f"the store cannot be used: {uri.path} is in use by {held}") from None
    except OSError as error:
        raise ConfigError(f"the store cannot be used: {path}: {(error.strerror or str(error)).lower()}") from None
    try:
        yield
    finally:
        lock.release()
