"""The outputs of one copy: frames and rows, kept, sent, counted, opened and closed."""
