"""The time limits of one link: for the handshake, and for the broker's silence after it (SEMANTICS J2)."""

from collections.abc import Callable

from ackwire.client.errors import ConnectionFailedError
from ackwire.client.link import Link
from ackwire.util.clock import Clock, Timer
from ackwire.wire.inactivity import InactivityMonitor
from ackwire.wire.openwire.negotiation import Agreement

Lose = Callable[[Link, ConnectionFailedError], None]
"""Called when a limit has passed."""


def handshake_timers(link: Link, clock: Clock, lose: Lose) -> list[Timer]:
    """Limits for the first bytes (connectAttemptTimeout) and for the agreement (negotiateTimeout)."""

    def too_late(reason: str) -> None:
        lose(link, ConnectionFailedError(f"{link.address}: {reason}"))

    def not_heard() -> None:
        if not link.heard.done():
            too_late(f"the broker said nothing for {first_ms / 1000:g} s (connectAttemptTimeout)")

    def not_agreed() -> None:
        what = "settle the wire format" if link.heard.done() else "say anything"
        too_late(f"the broker did not {what} within {all_ms / 1000:g} s (negotiateTimeout)")

    first_ms, all_ms = link.options.connect_attempt_timeout_ms, link.options.negotiate_timeout_ms
    limits = ((first_ms, not_heard), (all_ms, not_agreed))
    return [clock.call_later(limit_ms / 1000, late) for limit_ms, late in limits if limit_ms > 0]


def inactivity_monitor(
    link: Link, agreement: Agreement, clock: Clock, send_keep_alive: Callable[[bool], None], lose: Lose
) -> InactivityMonitor | None:
    """A monitor that calls *send_keep_alive* in time and *lose* after silence; None where the options want none."""
    options = link.options
    if agreement.inactivity_ms <= 0 or not options.use_inactivity_monitor:
        return None

    def keep_alive() -> None:
        if options.use_keep_alive:
            send_keep_alive(options.keep_alive_response_required)

    def on_silence(seconds: float) -> None:
        reason = f"nothing was heard from the broker for {seconds:g} s (maxInactivityDuration)"
        lose(link, ConnectionFailedError(f"{link.address}: {reason}"))

    return InactivityMonitor(
        clock,
        period_ms=agreement.inactivity_ms,
        initial_delay_ms=agreement.inactivity_initial_delay_ms,
        send_keep_alive=keep_alive,
        on_silence=on_silence,
    )
