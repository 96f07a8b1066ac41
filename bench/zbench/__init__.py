"""Measures heap beside zheap; see bench/README.md."""
