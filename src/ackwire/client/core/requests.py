"""Commands that wait for their answers.

`request` gives a command a number and keeps it until the answer with that number comes; while there is no link,
requests wait. After a reconnect those without an answer are sent again, in their order and with their old ids, so
that a broker that has done them already recognises them.
"""

from dataclasses import dataclass
from typing import Any, Final

from ackwire.client.core.hooks import EngineHooks, Hooks
from ackwire.client.core.reply import Reply
from ackwire.client.core.wire_link import LinkState, WireLink
from ackwire.client.errors import ConnectionFailedError, JMSError, error_from_wire
from ackwire.wire.openwire import commands
from ackwire.wire.openwire.client_encode import AckTemplate
from ackwire.wire.openwire.frame_builder import OutgoingMessage
from ackwire.wire.openwire.structures import Structure, Throwable

UNANSWERED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of messages that the broker has not confirmed; more wait."""


@dataclass(slots=True)
class Request:
    """A command that waits for its answer."""

    number: int
    command: commands.BaseCommand | OutgoingMessage
    reply: Reply[Structure]
    survives: bool
    """Whether it is repeated after a reconnect; otherwise it fails with the link."""
    in_transaction: bool = False
    """Whether it is repeated in its place in its transaction, and not with the others."""


class Requests:
    """The commands of one connection that the broker has not answered."""

    def __init__(self, link: WireLink, hooks: Hooks, engine: EngineHooks, *, is_failover: bool) -> None:
        self._link = link
        self._hooks = hooks
        self._engine = engine
        self._is_failover = is_failover
        self._requests: dict[int, Request] = {}
        self.unanswered_bytes = 0
        """Of messages that the broker has not confirmed."""

    # ---- asking ------------------------------------------------------------------------------------------------

    def request(
        self, command: commands.BaseCommand | OutgoingMessage, *, survives: bool = True, in_transaction: bool = False
    ) -> Reply[Structure]:
        """Send *command* and have it answered; while the link is down it waits, if it *survives* that."""
        link = self._link
        link.check_usable()
        reply: Reply[Structure] = Reply()
        if not survives and link.state not in (LinkState.UP, LinkState.LOGGING_IN):
            reply.fail(ConnectionFailedError(f"not connected to a broker now: {link.state.value}"))
            return reply
        request = Request(link.next_number(), command, reply, survives, in_transaction)
        self._requests[request.number] = request
        if isinstance(command, OutgoingMessage):
            self.unanswered_bytes += command.window_bytes
            reply.then(lambda _: self._no_longer_unanswered(command))
        if link.is_up:
            self.write(request)
        return reply

    def request_login(self, info: commands.ConnectionInfo) -> Reply[Structure]:
        """The request that is sent before the link is up."""
        reply = self.request(info, survives=False)
        self.write(next(reversed(self._requests.values())))
        return reply

    def send_ack(
        self,
        template: AckTemplate,
        ack_type: int,
        first_id: bytes | None,
        last_id: bytes,
        count: int,
        *,
        cause: Throwable | None,
        wants_answer: bool,
    ) -> Reply[Structure] | None:
        """Acknowledge; without a link there is nothing to acknowledge."""
        link = self._link
        if not link.is_up:
            return None
        if cause is not None or wants_answer:
            ack = template.command(0, False, ack_type, first_id, last_id, count)
            ack.poison_cause = cause
            if wants_answer:
                return self.request(ack, survives=False)
            link.one_way(ack)
            return None
        link.write_ack(template, ack_type, first_id, last_id, count)
        return None

    def write(self, request: Request) -> None:
        """Send *request*, or send it again on a new link."""
        command = request.command
        if isinstance(command, OutgoingMessage):
            self._link.write_message(command, request.number, True)
        else:
            command.command_id = request.number
            command.response_required = True
            self._link.write(command)

    def unanswered(self) -> dict[Reply[Structure], Request]:
        """What waits for an answer, by its reply."""
        return {request.reply: request for request in self._requests.values()}

    def in_order(self) -> list[Request]:
        """What waits for an answer now, in the order in which it was asked."""
        return list(self._requests.values())

    def repeat(self, requests: list[Request]) -> None:
        """Send again what is still unanswered of *requests*, but for those that their transactions repeat."""
        for request in requests:
            if request.number in self._requests and not request.in_transaction:
                self.write(request)

    # ---- answers -----------------------------------------------------------------------------------------------

    def on_response(self, response: commands.Response) -> None:
        if isinstance(response, commands.ExceptionResponse):
            self._on_refusal(response.correlation_id, error_from_wire(response.exception))
            return
        if response.correlation_id > self._link.unconfirmed_number:  # what was sent before has arrived
            self._link.unconfirmed = 0
        request = self._requests.pop(response.correlation_id, None)
        if request is not None:
            request.reply.settle(response)

    def _on_refusal(self, number: int, error: JMSError) -> None:
        if self._is_failover and isinstance(error, ConnectionFailedError):
            # The broker stops: what it has done is unknown, and another, or its successor, is asked again (K7).
            self._link.last_error = error
            self._engine.on_broken(error)
            return
        request = self._requests.pop(number, None)
        if request is not None:
            request.reply.fail(error)
        else:
            self._hooks.failed(error)

    def answer(self, request: Request, error: JMSError | None) -> None:
        """The broker need not answer *request* any more: its outcome is known."""
        self._requests.pop(request.number, None)
        if error is None:
            request.reply.settle(commands.Response())
        else:
            request.reply.fail(error)

    def forget(self, reply: Reply[Any], error: JMSError) -> None:
        """No caller waits for *reply* any more."""
        for number, request in self._requests.items():
            if request.reply is reply:
                del self._requests[number]
                break
        reply.fail(error)

    def report(self, reply: Reply[Any]) -> None:
        """Report an error that no call waits for to the application; the loss of a link is reported anyway."""
        if isinstance(reply.error, JMSError) and not isinstance(reply.error, ConnectionFailedError):
            self._hooks.failed(reply.error)

    def _no_longer_unanswered(self, message: OutgoingMessage) -> None:
        was_too_much = self.unanswered_bytes > UNANSWERED_BYTES_MAX
        self.unanswered_bytes -= message.window_bytes
        if was_too_much and self.unanswered_bytes <= UNANSWERED_BYTES_MAX:
            self._hooks.has_room()

    # ---- the end of a link -------------------------------------------------------------------------------------

    def take_lost(self) -> list[Reply[Structure]]:
        """Those that do not survive the link; they are no longer waited for."""
        numbers = [number for number, request in self._requests.items() if not request.survives]
        return [self._requests.pop(number).reply for number in numbers]

    def take_all(self) -> list[Reply[Structure]]:
        """All of them; they are no longer waited for."""
        waiting, self._requests = self._requests, {}
        return [request.reply for request in waiting.values()]
