"""One unit: the table of its copies, the schemes, and the records on the way from one state to another."""
