"""Protection of units against the failure of their worker, as a model. Source: MECHANISMS section 2."""
