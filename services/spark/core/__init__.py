"""Pure decisions of a Spark driver."""
