"""The brokers that the client is tried against: ours and the real ActiveMQ, one process of each for all tests."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.jms import with_options
from tests.conformance.tls import STORE_PASSWORD, TlsFiles
from tests.conformance.variants import VARIANTS, Variant
from tests.helpers.activemq import running_activemq
from tests.helpers.java import BROKER_JARS, compiled
from tests.helpers.java_cache import java_cache_or_skip
from tests.helpers.processes import RunningBroker, running_broker

KINDS: Final = tuple(os.environ.get("ACKWIRE_CLIENT_BROKERS", "ackwire,activemq").split(","))
"""Against which brokers the tests run: both, unless the environment names one."""

JAVA_SOURCES: Final = Path(__file__).parents[1] / "conformance" / "java"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker with a listener for TCP and one for TLS."""

    kind: str
    """ackwire or activemq."""
    running: RunningBroker
    authority: Path
    """Who vouches for its certificate."""

    @property
    def is_ours(self) -> bool:
        return self.kind == "ackwire"

    @property
    def port(self) -> int:
        return self.running.ports[0]

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def ssl_url(self) -> str:
        return f"ssl://127.0.0.1:{self.running.ports[1]}?caFile={self.authority}"

    def url_with(self, **options: object) -> str:
        """The TCP address with options; in their names `__` stands for a dot (`jms__useAsyncSend=True`)."""
        return with_options(self.url, **options)


class Brokers:
    """Starts each broker when it is first asked for."""

    def __init__(
        self, config: pytest.Config, tls: TlsFiles, folder: Callable[[str], Path], stack: ExitStack, logs: list[Path]
    ) -> None:
        self._config = config
        self._tls = tls
        self._folder = folder
        self._stack = stack
        self._logs = logs
        self._brokers: dict[tuple[str, str], Broker] = {}

    def get(self, kind: str, variant: str = "default") -> Broker:
        """The broker of that *kind*, configured as one of `tests.conformance.variants`.

        Skips the test (fails, in CI) if it needs Java and there is none.
        """
        if (kind, variant) not in self._brokers:
            log_path = self._folder(kind) / f"{kind}.log"
            start = self._ours if kind == "ackwire" else self._activemq
            self._brokers[kind, variant] = Broker(kind, start(log_path, VARIANTS[variant]), self._tls.authority)
        return self._brokers[kind, variant]

    def _ours(self, log_path: Path, variant: Variant) -> RunningBroker:
        tls = f"ssl://127.0.0.1:0?keyFile={self._tls.key}&certFile={self._tls.certificate}"
        options: list[str] = []
        if variant.ackwire:
            config = log_path.with_suffix(".toml")
            config.write_text(variant.ackwire)
            options += ["--config", str(config)]
        return self._run(
            log_path, lambda: running_broker(["tcp://127.0.0.1:0", tls], log_path=log_path, options=options)
        )

    def _activemq(self, log_path: Path, variant: Variant) -> RunningBroker:
        cache = java_cache_or_skip(self._config, BROKER_JARS)
        classes = compiled(JAVA_SOURCES / "broker", BROKER_JARS, cache)
        plain = {"wireFormat__tightEncodingEnabled": False, "wireFormat__cacheEnabled": False}  # as our client speaks
        listeners = [with_options(f"{scheme}://127.0.0.1:0", **plain) for scheme in ("tcp", "ssl")]
        key_store = self._tls.key_store
        return self._run(
            log_path,
            lambda: running_activemq(
                listeners,
                classes=classes,
                log_path=log_path,
                key_store=key_store,
                password=STORE_PASSWORD,
                settings=variant.activemq,
            ),
        )

    def _run(self, log_path: Path, start: Callable[[], AbstractContextManager[RunningBroker]]) -> RunningBroker:
        self._logs.append(log_path)
        return self._stack.enter_context(start())
