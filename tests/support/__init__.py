"""What several kinds of tests use: brokers to start, a raw peer, planted faults, transcripts."""
