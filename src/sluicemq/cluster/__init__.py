"""The links between the nodes of one cluster: how nodes find each other, prove who they are, and
exchange messages.

    frame          a message between nodes as bytes (docs/cluster-wire.md)
    introduction   what a node says of itself
    handshake      how two nodes prove that they share a secret, before anything else
    members        the nodes of the cluster; others are refused
    node_file      the identity of a node: its lives, the nodes it has met; node_path: where it is
    connection     a socket: handshake, then frames; outbox: what waits to be sent
    node_link      the two connections of a link; detector: when the other side is suspected
    peer           another node: attempts to connect, gates
    cluster        all of them, and the port to which they connect; strangers: who is not known
    founding       how the nodes of a list become one cluster, and never two
    membership     a node on its way into its cluster: does what founding says
    cluster_port   what others see of the cluster: messages to a node, and who is up

Pure as all of the core is: clock, dice and sockets are the World's.
"""
