"""Flow of rows below the cuts: a unit's batches, the merging of what arrives, routing, watermarks, replay."""
