"""socket ---bytes---> READER ---batch---> channels: from the first byte of a client to its last."""
