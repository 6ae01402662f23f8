"""`python -m sluicemq` is `sluicemq`."""

from sluicemq.cli.main import main

main()
