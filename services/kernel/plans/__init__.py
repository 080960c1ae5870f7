"""Plans: their soundness, and the tasks, units and topics that follow from them."""
