"""The demo: a year of flights, workers killed with and without a hot standby, every row checked."""
