"""The gain from labelling some rows of the target, and an update by those labels."""

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from shiftune import ShiftProblem, ShiftSearch


def visits(rng: np.random.Generator) -> pd.DataFrame:
    """Costs of visits to twelve hospitals, each with a price level of its own."""
    hospital = np.repeat(list("ABCDEFGHIJKL"), 150)
    level = np.repeat(rng.normal(0, 2, 12), 150)
    age = rng.normal(np.repeat(rng.uniform(40, 60, 12), 150), 10)
    days = rng.poisson(3, len(age))
    cost = 10 + 0.1 * (age - 50) + days + level + rng.normal(0, 1.5, len(age))
    return pd.DataFrame({"hospital": hospital, "age": age, "days": days, "cost": cost})


if __name__ == "__main__":
    threadpool_limits(1)  # many small fits in a row are fastest with one thread each
    truth = visits(np.random.default_rng(0))
    df = truth.assign(cost=truth["cost"].where(truth["hospital"] != "A"))  # A has no labels
    problem = ShiftProblem.from_frame(df, site="hospital", label="cost", target="A")
    search = ShiftSearch("linear", n_trials=8).fit(problem)
    print(search.risk_)
    print(search.label_worth())  # before anyone is paid for labelling

    # Somebody looks up the costs of 10 visits to A, which update the predictor.
    rows = df[df["hospital"] == "A"][["age", "days"]]
    looked_up = rows.sample(10, random_state=0).index
    updated = search.update(rows.loc[looked_up], truth["cost"][looked_up])
    print(updated.before_, updated.risk_, sep="\n")
    print(updated.effect_)
    others = rows.drop(index=looked_up)
    for model in (search, updated):
        print(((model.predict(others) - truth["cost"][others.index]) ** 2).mean())

    # Or from the beginning: the labels then take part in the choice of models as well.
    df.loc[looked_up, "cost"] = truth["cost"][looked_up]
    problem = ShiftProblem.from_frame(
        df, site="hospital", label="cost", target="A", target_labels="use"
    )
    print(ShiftSearch("linear", n_trials=8).fit(problem).risk_)
