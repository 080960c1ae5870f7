"""A model of the protection of units against the failure of their worker. Source: MECHANISMS section 2."""
