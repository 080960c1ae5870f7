count-0: new --Placed--> deploying: deploy
count-0: deploying --Deployed--> restoring: restore
count-0: restoring --Restored--> running: open_inputs, outputs, report
count-0: running --Opened--> running: deliver
count-0: running --OutputIndefinite--> running: keep_rows, close_outputs, outputs
count-0: running --Opened--> running: deliver
