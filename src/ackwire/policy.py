"""`DestinationPolicy`, as guides and programs import it."""

# Kept for programs that import it from here.
from ackwire.config.policy import DestinationPolicy as DestinationPolicy
