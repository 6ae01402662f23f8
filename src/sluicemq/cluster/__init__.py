"""Nodes that find, prove and hear each other: what is between the nodes of one cluster, and no
more.

    frame          a message between nodes as bytes (docs/cluster-wire.md)
    introduction   who a node says that it is
    handshake      how two nodes prove that they share a secret, before anything else
    cluster_port   what others see of the cluster: messages to a node, and who is up

Pure as all of the core is: clock, dice and sockets are the World's.
"""
