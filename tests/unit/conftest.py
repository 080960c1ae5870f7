"""Property tests on shared, noisy machines: no deadline an example, and slow generation is no failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("noisy")
