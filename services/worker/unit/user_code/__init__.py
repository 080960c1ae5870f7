"""Users' code at one copy: answers that it awaits, and errors that it raises."""
