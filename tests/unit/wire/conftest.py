"""How hard the generated tests of the wire try.

Every run takes the same examples, so a red test is red for everybody. `HYPOTHESIS_PROFILE=thorough` takes fifty times
as many, new ones each time.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "wire",
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("wire"), max_examples=5000, derandomize=False)
settings.load_profile("thorough" if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else "wire")
