"""How much of each limit is in use: by the whole broker, and by one connection."""

from ackwire.broker.session import Connection
from ackwire.broker.why_view import BrokerView


def broker_use(broker: BrokerView) -> list[str]:
    """The use of each limit that all clients share."""
    flow, room, settings = broker.flow, broker.receive_room, broker.settings
    lines = [
        f"{len(broker.registry.router)} of {settings.destinations.count_max} destinations (destinations.count_max), "
        f"{len(broker.scheduler)} of {settings.scheduler.jobs_max} scheduled jobs (scheduler.jobs_max) with "
        f"{broker.scheduler.used_bytes} of {settings.scheduler.job_bytes_max} bytes (scheduler.job_bytes_max)",
        f"{flow.blocked_bytes} bytes of sends wait for space (limits.blocked_bytes_max {flow.blocked_bytes_max}); "
        f"{room.used_bytes} of {room.bytes_max} bytes are given to frames that have arrived in part, and "
        f"{room.waiting_count} connections wait for such room (receive_bytes_max)",
    ]
    if flow.dropped_sends:
        lines.append(f"{flow.dropped_sends} sends of clients that left were dropped: they were not answered")
    return lines


def connection_use(broker: BrokerView, connection: Connection) -> str:
    """The use of each limit of *connection*."""
    limits, scheduler = connection.limits, broker.settings.scheduler
    jobs, job_bytes = broker.scheduler.share_of(connection)
    return (
        f"{connection!r} has {len(connection.subscriptions)} of {limits.consumers_max} consumers, "
        f"{len(connection.producers)} of {limits.producers_max} producers, "
        f"{len(connection.made) + len(connection.temporary)} of {limits.destinations_max} destinations that it made "
        f"(connection.destinations_max), {jobs} of {scheduler.connection_jobs_max} scheduled jobs with {job_bytes} of "
        f"{scheduler.connection_bytes_max} bytes (scheduler.connection_jobs_max, connection_bytes_max)"
    )
