"""Commands of a user to a cluster: submit, control, feed, resend, or run a job here without a cluster."""
