"""False suspicions of each detector on a loaded machine. Run by ./scripts/bench detectors."""
