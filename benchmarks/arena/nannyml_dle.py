"""NannyML's DLE on the rows that `number.py` has kept: its estimate of the squared error.

    python3.11 -m venv NANNYML
    NANNYML/bin/pip install nannyml statsmodels
    NANNYML/bin/python benchmarks/arena/nannyml_dle.py FOLDER/number

The environment is its own: NannyML asks for other versions than shiftune's tests. The reference
rows are those of the sources, predicted by models that do not know the site; the target's rows are
one chunk. CBPE is not called: in NannyML it has no log loss.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import nannyml as nml
import numpy as np
import pandas as pd


def estimate(file: Path) -> float:
    """Return the estimated mean squared error at the target."""
    with np.load(file) as arrays:
        columns = [f"x{i}" for i in range(arrays["X"].shape[1])]
        reference = pd.DataFrame(arrays["X"], columns=columns)
        reference = reference.assign(prediction=arrays["predictions"], y=arrays["y"])
        target = pd.DataFrame(arrays["X_target"], columns=columns)
        target = target.assign(prediction=arrays["predictions_target"])
    estimator = nml.DLE(
        feature_column_names=columns,
        y_pred="prediction",
        y_true="y",
        metrics=["mse"],
        chunk_number=1,
        hyperparameters={"n_jobs": 1, "verbose": -1, "random_state": 0},
    )
    found = estimator.fit(reference).estimate(target).filter(period="analysis").to_df()
    return float(found["mse", "value"].iloc[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    nml.disable_usage_logging()  # it would send reports of every call
    warnings.simplefilter("ignore")
    rows = []
    for file in sorted((args.folder / "rows").glob("*.npz")):
        dataset, target, seed = file.stem.rsplit("-", 2)
        row = {"dataset": dataset, "target": target, "seed": seed}
        rows.append(row | {"DLE of NannyML": estimate(file)})
    pd.DataFrame(rows).to_csv(args.folder / "nannyml.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
