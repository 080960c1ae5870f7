count-0: new --Placed--> deploying: deploy
count-0: deploying --Deployed--> restoring: restore
count-0: restoring --Restored--> synced: open_inputs, outputs, report
count-0: synced --Placed--> running: flag, outputs, report
count-0: running --Opened--> running: deliver
