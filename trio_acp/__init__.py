"""Trio-native Agent Client Protocol (ACP), both sides."""
