"""The flow of rows of one unit after the cuts: batches, merging of frames, routing, watermarks, replay."""
