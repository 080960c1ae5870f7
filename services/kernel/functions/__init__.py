"""The functions of the job language: one list, used by `check`, the command `functions` and the docs."""
