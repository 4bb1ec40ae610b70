"""The sending half of the transport: from the outbox of a sender to the answer of a receiver."""
