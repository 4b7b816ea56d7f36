"""What a node of a replicated group must remember besides its journal.

The file `node` beside the data holds the epoch that was promised, the group, an id of this disk made by chance, and how
far the log was known to be durable. It is replaced as a whole and synced. A node whose file is damaged does not know
what it has promised; a node whose log ends earlier than the file says has lost what it had confirmed, and may have lost
more than the file knows of. Neither has a vote until it was refilled, or a master has granted it.
"""

import json
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, final

from crc32c import crc32c

from ackwire.store.background import Background
from ackwire.store.files import Files
from ackwire.store.journal.opening import NODE_NAME
from ackwire.store.journal.shipping import EMPTY, Done, LogEnd

_FORMAT: Final = 1
_NEVER: Final = LogEnd((1 << 32) - 1, (1 << 64) - 1)

_log = logging.getLogger(__name__)


def store_id_of(group_id: str) -> bytes:
    """The id of a store that a group begins with: two nodes that begin with nothing, each in an epoch of its own, must
    write records that each other's journal can take."""
    return sha256(b"ackwire store of group " + group_id.encode()).digest()[:16]


class StalePromise(Exception):
    """A higher epoch was promised before."""


@final
class NodeStateFile:
    """Implements `NodeState`. `open_node_state` makes one."""

    def __init__(self, files: Files, data: Path, background: Background, new_id: Callable[[], bytes]) -> None:
        self._files = files
        self._path = data / NODE_NAME
        self._background = background
        self.promised_epoch = 0
        self.led_epoch = 0
        """The last epoch in which this node was master: records of it that say what was synced say it of this disk."""
        self.group_id = ""
        self.disk_id = new_id().hex()
        self.known_durable = EMPTY
        """So much of the log was durable, as of the last time that it was written down."""
        self.durable_now: Callable[[], LogEnd] | None = None
        """How far the log of the copy is durable: written down with each promise, which tells of its end. What it
        acknowledges after that, the master of the epoch knows."""
        self.is_new = True
        """Whether there was no file."""
        self.damage: str | None = None
        """What is wrong with the file that was found."""
        self.is_log_whole = True
        """Whether the log has had all that was known to be durable since it was last granted a vote."""
        self.log_damage = ""
        """What is damaged in the log, and would not be noticed when it is opened."""
        self._is_saving = False
        self._waiting: list[Done] = []

    @property
    def may_vote(self) -> bool:
        return self.damage is None and self.is_log_whole

    # ---- the file ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file, if there is one."""
        if not self._files.exists(self._path):
            return
        self.is_new = False
        try:
            head, _, checksum = self._files.read(self._path).strip().rpartition(b"\n")
            if int(checksum, 16) != crc32c(head):
                raise ValueError("its checksum is wrong")
            values = json.loads(head)
            if values["format"] != _FORMAT:
                raise ValueError(f"its format is {values['format']}, and this broker's is {_FORMAT}")
            promised, led = int(values["promised_epoch"]), int(values["led_epoch"])
            durable = LogEnd(int(values["durable_epoch"]), int(values["durable_number"]))
            group_id, disk_id = str(values["group_id"]), str(values["disk_id"])
            self.is_log_whole = bool(values["is_log_whole"])
            self.log_damage = str(values.get("log_damage", ""))
        except (ValueError, KeyError, TypeError) as error:
            self.damage = f"{self._path} is damaged: {error}"
            self.known_durable = _NEVER
            _log.error("%s: this node has no vote until it was refilled", self.damage)
        else:
            self.promised_epoch, self.led_epoch, self.known_durable = promised, led, durable
            self.group_id, self.disk_id = group_id, disk_id

    def _packed(self) -> bytes:
        values = {
            "format": _FORMAT,
            "promised_epoch": self.promised_epoch,
            "led_epoch": self.led_epoch,
            "group_id": self.group_id,
            "disk_id": self.disk_id,
            "is_log_whole": self.is_log_whole,
            "log_damage": self.log_damage,
            "durable_epoch": self.known_durable.epoch,
            "durable_number": self.known_durable.number,
        }
        head = json.dumps(values).encode()
        return head + b"\n%08x\n" % crc32c(head)

    def save(self, done: Done) -> None:
        """Write the file, beside the loop; one that is asked for meanwhile is written behind it."""
        self._waiting.append(done)
        if not self._is_saving:
            self._save_next()

    def _save_next(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._is_saving = True
        data = self._packed()

        def saved(error: Exception | None) -> None:
            self._is_saving = False
            if error is None:
                self.is_new = False
            for done in waiting:
                done(error)
            if self._waiting and not self._is_saving:
                self._save_next()

        self._background.submit(lambda: self._files.replace(self._path, data), saved)

    def save_on_the_spot(self) -> None:
        """The same while nothing else goes on: at the start, and at the end."""
        self._files.replace(self._path, self._packed())
        self.is_new = False

    # ---- what is remembered ------------------------------------------------------------------------------------

    def promise(self, epoch: int, done: Done) -> None:
        """See `NodeState`."""
        if epoch < self.promised_epoch:
            done(StalePromise(f"epoch {epoch} is lower than {self.promised_epoch}, which was promised"))
            return
        self.promised_epoch = epoch
        if self.durable_now is not None and self.may_vote:
            self.known_durable = max(self.known_durable, self.durable_now())
        self.save(done)

    def lead(self, epoch: int, done: Done) -> None:
        """This node is the master of *epoch*; durable before it writes a record of it."""
        if epoch < self.promised_epoch:
            done(StalePromise(f"epoch {epoch} is lower than {self.promised_epoch}, which was promised"))
            return
        self.promised_epoch = self.led_epoch = epoch
        self.save(done)

    def join(self, group_id: str, done: Done) -> None:
        """See `NodeState`."""
        self.group_id = group_id
        self.save(done)

    def note_durable(self, end: LogEnd) -> None:
        """The log is durable up to *end*; written down soon, and nothing depends on when."""
        if end > self.known_durable:
            self.known_durable = end
            self.save(_complain)

    def will_truncate(self, end: LogEnd, done: Done) -> None:
        """A master has the log truncated to *end*: what is behind it will not be missed, whatever a crash in the middle
        leaves of it. One that has lost records must see them again all the same."""
        if self.may_vote and (end < self.known_durable or self.led_epoch):
            self.known_durable, self.led_epoch = min(self.known_durable, end), 0
            self.save(done)
        else:
            done(None)

    def will_cut_group(self, end: LogEnd, done: Done) -> None:
        """The records behind *end* are of a group that never ended, and go before this node leads."""
        self.known_durable = min(self.known_durable, end)
        self.save(done)

    def was_refilled(self, end: LogEnd, done: Done) -> None:
        """The log was replaced as a whole, and ends at *end*."""
        self.known_durable, self.damage, self.is_log_whole, self.log_damage = end, None, True, ""
        self.save(done)

    def compare(self, end: LogEnd) -> None:
        """The log ends at *end*, before anything was added to it. A loss is remembered at once: the log may have grown
        beyond what was known when it is looked at again."""
        if self.is_log_whole and end < self.known_durable:
            _log.error("the log ends at %s, and was durable up to %s: this node has no vote", end, self.known_durable)
            self.is_log_whole = False
            self.save_on_the_spot()

    def lose_vote(self, done: Done) -> None:
        """See `NodeState`."""
        self.is_log_whole = False
        self.save(done)

    def lose_log(self, why: str, done: Done) -> None:
        """See `NodeState`."""
        self.is_log_whole, self.log_damage = False, why
        self.save(done)

    def grant_vote(self, done: Done) -> None:
        """See `NodeState`."""
        self.is_log_whole = True
        if self.damage is not None:
            self.damage, self.known_durable = None, EMPTY
        self.save(done)


def _complain(error: Exception | None) -> None:
    if error is not None:
        _log.error("the state of this node cannot be written: %s", error)


def open_node_state(files: Files, data: Path, background: Background, new_id: Callable[[], bytes]) -> NodeStateFile:
    """The state of the node in *data*; written for the first time when there is something to remember."""
    files.make_directory(data)
    state = NodeStateFile(files, data, background, new_id)
    state.load()
    return state
