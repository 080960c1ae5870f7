"""Plans: their soundness, and the tasks, units and topics derived from them."""
