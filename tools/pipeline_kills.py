"""Kills driver, executors and broker of a queue → Spark → queue pipeline, and checks that each message comes once.

    python tools/pipeline_kills.py --kills 20 --messages 200000 --seed 1

Ends with status 1 if a message is lost, doubled or left behind; data, checkpoint and logs are kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # where `tests` is

from tests.pipeline.rounds import Plan, chosen_strikes, run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=5000, help="messages in a batch of the stream, at most")
    parser.add_argument("--seed", type=int, default=1, help="decides whom to strike, and when")
    options = parser.parse_args()
    strikes = chosen_strikes(options.kills, random.Random(options.seed))
    folder = Path(tempfile.mkdtemp(prefix="ackwire-pipeline-"))
    try:
        plan = Plan(options.messages, strikes, options.batch)
        report = run(plan, seed=options.seed, folder=folder, progress=_show)
    except BaseException:
        print(f"kept: {folder}")
        raise
    print(*report.lines(), sep="\n")
    if report.violations:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _show(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
