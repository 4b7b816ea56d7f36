"""Many consumers with a selector each on one queue: what a send costs that none of them, or one, wants.

python -m tools.attack.many_selectors [SELECTORS] [SENDS]
"""

import sys
import time

from ackwire.jms.types import Int
from ackwire.wire.openwire.primitives import encode_map
from tests.helpers.openwire_client import OpenWireClient, queue
from tools.attack.bulk import tell_all
from tools.attack.rig import attacked, print_row


def main(selectors: int = 3_000, sends: int = 200) -> None:
    forms = {
        "equal": "customer = {}",
        "and": "customer = {} AND JMSPriority < 9",
        "text": "region = 'r{}'",
        "range": "customer > {} AND customer < 0",
    }
    for name, form in forms.items():
        where = queue(f"selected.{name}")
        with attacked("--store", "memory") as broker, OpenWireClient.logged_in(broker.port) as client:
            infos = [client.consumer_info(where, selector=form.format(number)) for number in range(selectors)]
            with broker.bystander() as bystander:
                tell_all(client, infos)
            print_row(f"{selectors} selectors ({name})", broker, bystander.result)
            messages = [client.text_message(where, "x") for _ in range(sends)]
            for number, message in enumerate(messages):
                wanted = Int(number * 7 % (2 * selectors))
                message.marshalled_properties = encode_map({"customer": wanted, "region": f"r{wanted}"})
            with broker.bystander() as bystander:
                started = time.perf_counter()
                for message in messages:
                    client.request(message)
                took = time.perf_counter() - started
            print_row(f"{sends} sends ({name})", broker, bystander.result, f"{took / sends * 1000:.2f} ms each")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
