"""The real World: sockets, disk, clock, dice and memory of this machine, and the process of a
broker in it."""
