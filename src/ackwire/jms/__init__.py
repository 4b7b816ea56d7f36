"""What JMS defines and every layer passes on: typed values, names, destinations, messages."""
