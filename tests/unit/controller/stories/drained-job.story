job@0-7b8c3b: submitted --turn_came--> drafting: describe the user's topics and make a plan
job@0-7b8c3b: drafting --plan_read--> admitted
job@0-7b8c3b: admitted --cleared--> creating: create the generation's topics
job@0-7b8c3b: creating --created--> placing
job@0-7b8c3b: placing --placed--> running
job@0-7b8c3b: running --drain_asked--> draining: append the drain with the end offsets of the sources
job@0-7b8c3b: draining --ran_out--> stopping
job@0-7b8c3b: stopping --stopped--> fencing: fence every transactional id
job@0-7b8c3b: fencing --fenced--> deleting: delete the generation's topics
job@0-7b8c3b: deleting --deleted--> ending: append the end
job@0-7b8c3b: ending --end_read--> ended
