"""Room: see README.md beside this file."""
