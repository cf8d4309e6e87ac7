"""Experiments of Nomura and Saito (CIKM 2021), run with this package.

>>> from reproduction.experiments import Toy
>>> from reproduction.reproduce import reproduce
>>> runs = reproduce(Toy(), range(30), "paper/toy", n_jobs=2)  # doctest: +SKIP
"""
