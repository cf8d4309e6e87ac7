"""``python -m shiftune``: run the demonstration."""

from shiftune.demo import run

if __name__ == "__main__":
    run()
