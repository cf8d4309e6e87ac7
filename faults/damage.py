"""Damage to the bytes of a journal, at a place that is drawn."""

from __future__ import annotations


def flipped(content: bytes, place: int) -> bytes:
    """Flip a bit."""
    place %= len(content)
    return content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def dropped(content: bytes, place: int) -> bytes:
    """Leave a line out."""
    lines = content.splitlines(keepends=True)
    del lines[place % (len(lines) - 1)]
    return b"".join(lines)


def swapped(content: bytes, place: int) -> bytes:
    """Swap two neighbouring lines."""
    lines = content.splitlines(keepends=True)
    place %= len(lines) - 1
    lines[place : place + 2] = lines[place + 1], lines[place]
    return b"".join(lines)


def twice(content: bytes, place: int) -> bytes:
    """Write a line twice."""
    lines = content.splitlines(keepends=True)
    lines.insert(place % len(lines), lines[place % len(lines)])
    return b"".join(lines)


def zeroed(content: bytes, place: int) -> bytes:
    """Overwrite ten bytes with zeros."""
    place %= len(content) - 10
    return content[:place] + bytes(10) + content[place + 10 :]


def without_the_end(content: bytes, place: int) -> bytes:
    """Cut the end off."""
    return content[: place % len(content)]


DAMAGES = [flipped, dropped, swapped, twice, zeroed, without_the_end]
