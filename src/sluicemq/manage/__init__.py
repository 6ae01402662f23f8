"""The running broker as rows for people: what `sluicemq ctl` shows."""
