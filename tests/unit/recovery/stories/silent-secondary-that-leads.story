u-0#1: unplaced -> alone (none): w1 leads; placed
u-0#2: alone -> alone (hybrid): w1 leads; another scheme was asked for: the change begins
u-0#3: alone -> normal (hybrid): w1 leads, w2 hot; there is no secondary: a new secondary
u-0#4: normal -> switched (hybrid): w1 active, w2 leads; the primary is silent: the secondary leads until the primary is well again, and both send
u-0#5: switched -> normal (hybrid): w1 leads, w2 active; the secondary is silent and the primary is not: the primary leads again, and both send until it has been well for a while
u-0#6: normal -> normal (hybrid): w1 leads, w2 covered; the next step towards the scheme is safe: its flags change
u-0#7: normal -> normal (hybrid): w1 leads, w2 hot; the next step towards the scheme is safe: its flags change
