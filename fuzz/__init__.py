"""Long random runs against the protocol core and the peer: ``python -m fuzz --seconds 600``."""
