"""How well units are protected against the failure of their worker, as a model. Source: MECHANISMS section 2."""
