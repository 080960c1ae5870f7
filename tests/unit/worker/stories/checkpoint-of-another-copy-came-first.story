resting --Due--> encoding (batch 5)
encoding --Encoded--> flushing (batch 5)
flushing --Flushed--> deciding (batch 5)
deciding --MarkerRead--> resting (batch 5)
