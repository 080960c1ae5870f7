resting --Due--> encoding (batch 5)
encoding --Encoded--> flushing (batch 5)
flushing --Abandoned--> resting (batch 5)
