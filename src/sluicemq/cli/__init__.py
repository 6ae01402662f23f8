"""The command `sluicemq`: one file a command, imported only when it is run."""
