"""The command line: `main` reads it, and each noun has a file of its own."""
