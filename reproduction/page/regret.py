"""The page's section on the regret study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.figures import save
from reproduction.markdown import pipe_table
from reproduction.page.parts import paragraph, percent
from reproduction.record import RUNS
from reproduction.regret import coverage, figure, shrinkage
from reproduction.regret.reproduce import POOR_OVERLAP, read_study
from reproduction.regret.run import DELTAS
from reproduction.regret.tables import coverage_table, shrinkage_table

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def regret_section(folder: Path, pictures: Path) -> str:
    """Return the section, and draw its figure."""
    frame = read_study(folder / RUNS)
    poor = frame["c"] == POOR_OVERLAP
    usual = frame[~poor]
    save(figure(usual), pictures / "regret", ["svg"])
    return f"""
## Regret on the toy problem

{_introduction(usual)}

{pipe_table(coverage_table(usual))}

Mean regret by rows and by trials (at the largest of the other):

{pipe_table(shrinkage_table(usual, "n"))}

{pipe_table(shrinkage_table(usual, "B"))}

![Regret and its bound]({pictures.name}/regret.svg)

The same where overlap is poor, c = {POOR_OVERLAP:g}:

{pipe_table(coverage_table(frame[poor]))}

{_explained(usual, frame[poor])}
"""


def _introduction(usual: pd.DataFrame) -> str:
    deltas = " / ".join(f"{delta:g}" for delta in DELTAS)
    promised = " / ".join(f"{1 - delta:.2f}" for delta in DELTAS)
    return paragraph(
        f"""
        Share of {usual["seed"].nunique()} seeds in which the main theorem's bound holds, for delta
        = {deltas}, which promises at least {promised} (c = {usual["c"].iloc[0]:g}, B =
        {usual["B"].max()}): the theorem and its two lemmas with true variances, and the bound that
        a user has ("plug-in").
        """
    )


def _explained(usual: pd.DataFrame, poor: pd.DataFrame) -> str:
    """Compare the theorem's rate and its lemma with the runs."""
    rate = (
        shrinkage(usual)
        .query("method == 'variance_reduced' and ratio == 'known' and sampler == 'gp_lcb'")
        .iloc[0]
    )
    held = coverage(poor).query("claim == 'lemma B' and delta == @DELTAS[0]")["holds"]
    span = " to ".join(dict.fromkeys(percent(share) for share in (held.min(), held.max())))
    return paragraph(
        f"""
        The theorem uses Chebyshev's inequality, which is loose: with the variances its bound falls
        like n^-0.5, the mean regret of the variance reduced estimator like
        n^{rate["slope"]:.2f} (± {rate["slope_stderr"]:.2f}; known ratio, GP-LCB). One step of its
        proof does not hold: lemma B takes the chosen theta as fixed, although it was chosen on the
        same rows. At c = {POOR_OVERLAP:g} the lemma holds in {span} of the runs instead of at
        least {percent(1 - DELTAS[0])}, and the plug-in bound fails with it.
        So a search does not offer it.
        """
    )
