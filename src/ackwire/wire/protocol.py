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
from typing import Any

from ackwire.compilation import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)  # protocols of plugins, and those that tests watch
class WireProtocol:
    """The contract in four words: receive, events, send, data.

    A class and no `typing.Protocol`, because compiled code calls the methods of a class directly.
    """

    def __init__(self) -> None:
        self.waiting_bytes = 0
        """Bytes that `data_to_send` would return now."""

    def receive_data(self, data: bytes) -> None:
        """Take what the peer sent."""
        raise NotImplementedError

    def receive_eof(self) -> None:
        """Raise `RemoteProtocolError` if the peer stopped in the middle of something."""

    def events(self) -> Iterator[Any]:
        """The events of all complete frames received so far."""
        raise NotImplementedError

    def data_to_send(self) -> list[bytes]:
        """Take the pieces that are waiting to be written, in order."""
        raise NotImplementedError

    def login_finished(self) -> None:
        """The peer has introduced itself: limits for strangers end."""

    def drop_received(self) -> None:
        """Discard the input: free the partly received frame, and ignore what the peer has sent."""

    @property
    def unfinished_bytes(self) -> int:
        """The size of the frame that has arrived in part, as far as it is known; 0 if none has."""
        return 0

    @property
    def missing_bytes(self) -> int:
        """The bytes of that frame that have not arrived."""
        return 0

    @property
    def arrivals(self) -> int:
        """Changes when a frame is complete that was unfinished."""
        return 0
