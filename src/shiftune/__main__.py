"""``python -m shiftune``: the command line."""

from shiftune.cli import main

if __name__ == "__main__":
    main()
