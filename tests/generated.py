"""How hard generated tests try; imported by the conftest of the folders that have them.

Every run takes the same examples, so a red test is red for everybody, and shows the first that fails as it is: making
a message with thirty fields smaller takes minutes. `HYPOTHESIS_PROFILE=thorough` does that, and takes fifty times as
many examples, new ones each time.
"""

import os

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "wire",
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "thorough",
    settings.get_profile("wire"),
    max_examples=5000,
    derandomize=False,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
settings.load_profile("thorough" if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else "wire")
