"""Random problems through the API, and random files through the command line: `make fuzz`."""
