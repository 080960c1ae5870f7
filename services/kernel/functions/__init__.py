"""The functions of the job language: one list, of which `check`, the command `functions` and the docs are made."""
