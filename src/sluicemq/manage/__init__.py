"""The state of the running broker as rows for people, which `sluicemq ctl` shows."""
