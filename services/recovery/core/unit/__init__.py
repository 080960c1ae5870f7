"""Rules for one unit: the table of its copies, the schemes, and the records from one state to another."""
