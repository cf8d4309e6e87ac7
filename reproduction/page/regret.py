"""The page's section on the regret study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.figures import save
from reproduction.markdown import pipe_table
from reproduction.record import RUNS
from reproduction.regret import figure
from reproduction.regret.reproduction import POOR_OVERLAP, read_study
from reproduction.regret.tables import coverage_table, shrinkage_table

if TYPE_CHECKING:
    from pathlib import Path


def regret_section(folder: Path, pictures: Path) -> str:
    """Return the section, and draw its figure."""
    frame = read_study(folder / RUNS)
    poor = frame["c"] == POOR_OVERLAP
    usual = frame[~poor]
    save(figure(usual), pictures / "regret")
    return f"""
## Regret on the toy problem

How often the main theorem's bound holds, over {frame["seed"].nunique()} seeds (c =
{usual["c"].iloc[0]:g}, B = {frame["B"].max()}, delta = 0.1 / 0.2, so at least 0.90 / 0.80 is
promised), with true variances ("theorem"), its two lemmas, and with what a user has ("plug-in"):

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
The theorem rests on Chebyshev's inequality, which is loose: the bound falls like 1/sqrt(n), the
regret faster. And one step of its proof is not sound: lemma B takes the chosen theta as fixed,
although it was chosen on the same rows. Where overlap is poor that shows, in the lemma and in the
plug-in bound that a user has. `ShiftSearch.regret_bound` is infinite where no source overlaps
enough with the target for an estimate of the unbiased class.
"""
