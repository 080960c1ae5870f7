u-0#1: unplaced -> alone (none): w1 leads; placed
u-0#2: alone -> alone (hybrid): w1 leads; another scheme was asked for: the change begins
u-0#3: alone -> normal (hybrid): w1 leads, w2 hot; there is no secondary: a new secondary
u-0#4: normal -> alone (hybrid): w1 leads; the secondary is gone: the primary continues alone
u-0#5: alone -> normal (hybrid): w1 leads, w3 hot; there is no secondary: a new secondary
