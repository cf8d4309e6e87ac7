"""The page's section on the regret study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.figures import save
from reproduction.markdown import pipe_table
from reproduction.record import RUNS
from reproduction.regret import figure
from reproduction.regret.reproduce import POOR_OVERLAP, read_study
from reproduction.regret.run import DELTAS
from reproduction.regret.tables import coverage_table, shrinkage_table

if TYPE_CHECKING:
    from pathlib import Path


def regret_section(folder: Path, pictures: Path) -> str:
    """Return the section, and draw its figure."""
    frame = read_study(folder / RUNS)
    poor = frame["c"] == POOR_OVERLAP
    usual = frame[~poor]
    save(figure(usual), pictures / "regret")
    deltas = " / ".join(f"{delta:g}" for delta in DELTAS)
    promised = " / ".join(f"{1 - delta:.2f}" for delta in DELTAS)
    return f"""
## Regret on the toy problem

Share of {frame["seed"].nunique()} seeds in which the main theorem's bound holds, for delta =
{deltas}, which promises at least {promised} (c = {usual["c"].iloc[0]:g}, B = {frame["B"].max()}):
the theorem and its two lemmas with true variances, and the bound that a user has ("plug-in").

{pipe_table(coverage_table(usual))}

Mean regret by rows and by trials (at the largest of the other):

{pipe_table(shrinkage_table(usual, "n"))}

{pipe_table(shrinkage_table(usual, "B"))}

![Regret and its bound]({pictures.name}/regret.svg)

The same where overlap is poor, c = {POOR_OVERLAP:g}:

{pipe_table(coverage_table(frame[poor]))}

{REGRET_EXPLAINED.strip()}
"""


REGRET_EXPLAINED = """
The theorem uses Chebyshev's inequality, which is loose: the bound falls like 1/sqrt(n), the regret
faster. One step of its proof does not hold: lemma B takes the chosen theta as fixed, although it
was chosen on the same rows. Poor overlap shows it, in the lemma and in the plug-in bound.
`ShiftSearch.regret_bound` is infinite where no source overlaps enough with the target for an
estimate of the unbiased class.
"""
