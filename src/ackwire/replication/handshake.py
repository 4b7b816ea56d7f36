"""Two nodes prove to each other that they have the same secret, before they say anything else.

    who dials:  Challenge(n1)  ─►
                               ◄─  Answer(n2, HMAC(secret, "accepting" n1 n2))
                Proof(HMAC(secret, "dialing" n1 n2))  ─►

Each proof holds both numbers and the side that made it, so that neither a recorded proof nor one sent back to its
maker is of use. Without a secret on both sides the key is empty, which `require_secret` allows on a loopback address
only. What follows is not encrypted: TLS does that.
"""

import hmac
import ipaddress
from collections.abc import Callable
from hashlib import sha256
from typing import Final, final

from ackwire.errors import ConfigError
from ackwire.replication.messages import NONCE_BYTES, VERSION, Answer, Challenge, Message, Proof, Reason

SECRET_BYTES_MIN: Final = 16
"""Shorter ones can be guessed from one recorded proof."""


class Refused(Exception):
    """The peer is not one to talk to."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def require_secret(secret: bytes, host: str) -> None:
    """Refuse to be reachable from other machines without a secret. Raises `ConfigError`."""
    if secret and len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(f"the secret of the group has {len(secret)} bytes; it must have {SECRET_BYTES_MIN} or more")
    if not secret and not _is_loopback(host):
        raise ConfigError(
            f"nodes that listen on {host} need a secret: set replication.secret_file, or listen on a loopback address"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name may lead anywhere
        return False


@final
class Dialing:
    """The side that has dialed. `begin` is sent first; `receive` takes the answer and returns the proof."""

    def __init__(self, secret: bytes, new_nonce: Callable[[int], bytes]) -> None:
        self._secret = secret
        self._nonce = new_nonce(NONCE_BYTES)
        self.is_done = False

    def begin(self) -> Challenge:
        return Challenge(VERSION, self._nonce, bool(self._secret))

    def receive(self, message: Message) -> Proof:
        """Raises `Refused`."""
        if not isinstance(message, Answer) or self.is_done:
            raise Refused(Reason.BROKEN_PROTOCOL, f"a {type(message).__name__} instead of an answer to the challenge")
        _check_terms(message, self._secret)
        if not _is_proof(message.proof, self._secret, b"accepting", self._nonce, message.nonce):
            raise Refused(Reason.WRONG_SECRET, "the other node has another secret")
        self.is_done = True
        return Proof(_prove(self._secret, b"dialing", self._nonce, message.nonce))


@final
class Accepting:
    """The side that was dialed. `receive` returns what to send, or None when the peer has proved the secret."""

    def __init__(self, secret: bytes, new_nonce: Callable[[int], bytes]) -> None:
        self._secret = secret
        self._nonce = new_nonce(NONCE_BYTES)
        self._peer_nonce: bytes | None = None
        self.is_done = False

    def receive(self, message: Message) -> Answer | None:
        """Raises `Refused`."""
        if isinstance(message, Challenge) and self._peer_nonce is None:
            _check_terms(message, self._secret)
            self._peer_nonce = message.nonce
            proof = _prove(self._secret, b"accepting", message.nonce, self._nonce)
            return Answer(VERSION, self._nonce, proof, bool(self._secret))
        if isinstance(message, Proof) and self._peer_nonce is not None and not self.is_done:
            if not _is_proof(message.proof, self._secret, b"dialing", self._peer_nonce, self._nonce):
                raise Refused(Reason.WRONG_SECRET, "the other node has another secret")
            self.is_done = True
            return None
        raise Refused(Reason.BROKEN_PROTOCOL, f"a {type(message).__name__} at the wrong time")


def _check_terms(message: Challenge | Answer, secret: bytes) -> None:
    if message.version != VERSION:
        text = f"the other node speaks version {message.version} of the protocol, this one {VERSION}"
        raise Refused(Reason.OTHER_VERSION, text)
    if message.has_secret != bool(secret):
        text = (
            "the other node has a secret, this one has none" if message.has_secret else "the other node has no secret"
        )
        raise Refused(Reason.WRONG_SECRET, text)


def _prove(secret: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.new(secret, b"ackwire node " + side + first + second, sha256).digest()


def _is_proof(proof: bytes, secret: bytes, side: bytes, first: bytes, second: bytes) -> bool:
    return hmac.compare_digest(proof, _prove(secret, side, first, second))
