"""Two states of the code compared: the same measures, in turns, in two clusters on one machine."""
