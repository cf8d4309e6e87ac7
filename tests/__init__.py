"""Tests, as a package: another distribution installs one of the same name."""
