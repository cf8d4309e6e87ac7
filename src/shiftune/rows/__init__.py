"""Rows as numbers, encoded once per study for all below."""
