"""The console: a cluster and its jobs in a browser. An extra of the package: `holdfast-streams[console]`."""
