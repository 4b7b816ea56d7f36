"""`ackwire serve --http` on a journal, as the Spark tests use it: filled, looked at, killed and started again."""

import itertools
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ackwire
from ackwire.spark.http import BrokerApi
from ackwire.spark.offsets import RangePartition
from ackwire.spark.options import Use, read_options
from ackwire.spark.reader import read_rows
from tests.helpers.processes import READY_LINE, READY_TIMEOUT_SECONDS, ManagedProcess, ackwire_program

_names = itertools.count(1)


class HttpBroker:
    """A broker with a port for clients and one for HTTP, which stay the same when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: ManagedProcess | None = None
        self.port = 0
        self.http_port = 0
        self._api: BrokerApi | None = None

    def start(self) -> None:
        where = ("--listen", f"tcp://127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http_port}")
        argv = [str(ackwire_program()), "serve", "--data", str(self._folder / "data"), *where]
        self._process = ManagedProcess(argv, log_path=self._folder / "broker.log")
        addresses = self._process.wait_for_line(READY_LINE, READY_TIMEOUT_SECONDS)["addresses"]
        self.port, self.http_port = (int(port) for port in re.findall(r"://[^\s,?]*:(\d+)", addresses))

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._api is not None:
            self._api.close()
        assert self._process is not None
        self._process.stop()

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """What every use of the source needs."""
        return {
            "url": f"http://127.0.0.1:{self.http_port}",
            "tokenFile": str(self._folder / "data" / "http.token"),
            "retryTimeout": "20s",
        }

    @property
    def api(self) -> BrokerApi:
        """The HTTP API."""
        if self._api is None:
            self._api = self.new_api()
        return self._api

    def new_api(self, **more: str) -> BrokerApi:
        """Another connection to the HTTP API, for a `with`; *more* are options."""
        return BrokerApi(read_options({**self.options, **more}, Use.WRITE))

    def new_name(self, prefix: str = "spark") -> str:
        """A name for a queue or cursor that no other test uses."""
        return f"{prefix}.{next(_names)}"

    def fill(self, queue: str, bodies: list[Any], **headers: Any) -> None:
        """Send messages to *queue*, and wait until the broker has them."""
        with ackwire.connect(self.url) as connection, connection.session(transacted=True) as session:
            producer = session.producer(queue)
            for body in bodies:
                producer.send(body, **headers)
            session.commit()

    def drain(self, queue: str) -> list[ackwire.Message]:
        """Consume all messages of *queue*."""
        with ackwire.connect(self.url) as connection, connection.session() as session:
            consumer = session.consumer(queue)
            return [message for _ in self.texts(queue) if (message := consumer.receive(10.0)) is not None]

    def texts(self, queue: str) -> list[Any]:
        """What the text messages of *queue* say, in order; consumes nothing."""
        options = read_options({**self.options, "destination": queue}, Use.READ)
        partitions = [
            RangePartition(f"/v1/queues/{queue}/messages", after, to) for after, to in self.api.queue_ranges(queue, 1)
        ]
        batches = [batch for part in partitions for batch in read_rows(options, part, ("text",), is_dense=False)]
        return [text for batch in batches for text in batch.column("text").to_pylist()]
