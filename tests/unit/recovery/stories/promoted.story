u-0#1: unplaced -> alone (none): w1 leads; placed
u-0#2: alone -> alone (hybrid): w1 leads; another scheme was asked for: the change begins
u-0#3: alone -> normal (hybrid): w1 leads, w2 hot; there is no secondary: a new secondary
u-0#4: normal -> switched (hybrid): w1 active, w2 leads; the primary is silent: the secondary leads until the primary is well again, and both send
u-0#5: switched -> alone (hybrid): w2 leads; the primary is gone: the secondary takes its place
u-0#6: alone -> normal (hybrid): w2 leads, w3 hot; there is no secondary: a new secondary
