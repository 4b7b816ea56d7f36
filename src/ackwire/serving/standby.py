"""What a broker does for others while it is not the master: it answers HTTP, and refuses clients if it is to."""

from typing import final

from ackwire.config.listener_uri import parse_listener_uri
from ackwire.server.adapters.openwire_factory import wire_limits
from ackwire.server.listener import Listener
from ackwire.server.refusal import Refusals
from ackwire.serving.term import Process, prepare


@final
class Standby:
    """Opened before each wait, closed before each term."""

    def __init__(self, process: Process) -> None:
        settings = process.settings
        self._settings = settings
        self._roles = process.roles
        self._http = process.http
        self._group = process.group
        self._refusals = Refusals(self._reason, settings.cluster.members, wire_limits(settings))
        self._listeners: list[Listener] = []

    def _reason(self) -> str:
        return f"broker {self._settings.broker.name} is a slave: {self._roles.standing.why}"

    async def open(self) -> None:
        """Listen, and load what a term needs: clients wait for a take-over. Raises `ConfigError` if that cannot be."""
        prepare(with_http=self._http is not None)
        if self._http is not None:
            from ackwire.admin.standing import StandbyApi
            from ackwire.admin.tokens import load_token, token_path

            token = load_token(token_path(self._settings))
            api = StandbyApi(self._settings.broker.name, lambda: self._roles.standing, token, self._group)
            self._http.answer_with(api.answer)
            await self._http.open()
        if self._settings.cluster.refuse_clients:
            for text in self._settings.listen.uris:
                listener = Listener(parse_listener_uri(text), self._refusals.connection, self._settings.handshake)
                await listener.start()
                self._listeners.append(listener)

    async def close(self) -> None:
        """Free the ports of clients."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()
        self._refusals.close()
        if self._http is not None:
            await self._http.drain(0)
