"""What every wire protocol offers to the server: bytes in, events out; commands in, bytes out.

    protocol.receive_data(data)          bytes that came from the peer
    protocol.receive_eof()               the peer will send no more
    for event in protocol.events(): …    what they mean; parsed one by one, so that handling one event (a login,
                                         say) can change the limits for the next
    protocol.send_…(…)                   what to tell the peer; each protocol has its own
    protocol.data_to_send()              the bytes to write now

No sockets, no clock, no asyncio. `events` and `receive_eof` raise `RemoteProtocolError` and nothing else, whatever the
bytes; after that the protocol is finished and yields no more.
"""

from collections.abc import Iterator
from typing import Protocol


class WireProtocol(Protocol):
    """The contract in four words: receive, events, send, data."""

    def receive_data(self, data: bytes) -> None:
        """Take what the peer sent."""
        ...

    def receive_eof(self) -> None:
        """Raise `RemoteProtocolError` if the peer stopped in the middle of something."""
        ...

    def events(self) -> Iterator[object]:
        """What the received bytes say, as far as they are complete."""
        ...

    def data_to_send(self) -> list[bytes]:
        """Take the pieces that are waiting to be written, in order."""
        ...
