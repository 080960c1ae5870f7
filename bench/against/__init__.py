"""Two states of the code beside each other: the same measures, by turns, in two clusters on one machine."""
