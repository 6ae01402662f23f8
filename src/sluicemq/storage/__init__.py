"""The formats of all files on the disk, and the code that reads and writes them."""
