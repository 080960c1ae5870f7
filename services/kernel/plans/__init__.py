"""What a plan says: whether it is sound, and the tasks, units and topics that follow from it."""
