"""How many examples one generated test takes, as a share of the profile's."""

from hypothesis import settings


def effort(percent: int) -> settings:
    """Settings for a test that takes *percent* of the profile's examples (100 of them unless it is thorough)."""
    return settings(max_examples=max(1, settings.default.max_examples * percent // 100))  # type: ignore[union-attr]
