"""Which of several brokers is the master: roles, and what grants them."""
