"""What the README prints for Spark runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import ackwire
from tests.helpers.quick_java import QUICK_JAVA
from tests.spark.broker import HttpBroker

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 110


def test_the_example_of_the_readme_bills_each_order_once(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(from ackwire\.spark.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with HttpBroker(tmp_path) as broker:
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            for order in ("apples", "pears"):
                session.producer("orders").send(order)
        code = code.replace("http://127.0.0.1:8161", broker.options["url"])
        code = code.replace("ackwire-data/http.token", broker.options["tokenFile"])
        environment = {**os.environ, **QUICK_JAVA, "PYTHONPATH": str(Path(ackwire.__file__).parents[1])}
        for _ in range(2):  # the second time there is nothing left to do
            subprocess.run(
                [sys.executable, "-c", code], cwd=tmp_path, env=environment, timeout=TIMEOUT_SECONDS, check=True
            )
        with ackwire.connect(broker.url) as connection, connection.session() as session:
            with session.consumer("bills") as consumer:
                bills = [consumer.receive(5), consumer.receive(5), consumer.receive(0.2)]
            assert [bill and bill.body for bill in bills] == ["bill for apples", "bill for pears", None]
