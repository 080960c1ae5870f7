"""The figures of the papers, measured again, each with a verdict. Run by ./scripts/figures."""
