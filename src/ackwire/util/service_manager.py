"""Tells systemd, or who starts programs as it does, how this process stands (sd_notify, without its library)."""

import logging
import os
import socket
from collections.abc import Mapping
from typing import final

_log = logging.getLogger(__name__)


@final
class ServiceManager:
    """Sends what it is told to the socket that `NOTIFY_SOCKET` names; does nothing if there is none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._path = environment.get("NOTIFY_SOCKET", "")
        self._is_ready = False

    def ready(self, status: str) -> None:
        """It has started, and *status* is what it does now."""
        first = "" if self._is_ready else "READY=1\n"
        self._is_ready = True
        self._send(f"{first}STATUS={status}")

    def stopping(self) -> None:
        """It ends."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._path:
            return
        address = f"\0{self._path[1:]}" if self._path.startswith("@") else self._path  # an abstract socket
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), address)
        except OSError as error:
            _log.debug("the service manager could not be told: %s", error)
