"""How often each detector suspects a worker that is well, on a loaded machine. Run by ./scripts/bench detectors."""
