"""What lies on the disk: the formats of its files, and who reads and writes them."""
