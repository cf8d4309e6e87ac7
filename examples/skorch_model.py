"""A network of PyTorch through skorch; needs skorch and torch."""

import numpy as np
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skorch import NeuralNetClassifier

from shiftune import ShiftProblem, ShiftSearch
from shiftune.datasets._generated import hospitals


class Network(torch.nn.Module):
    """One hidden layer; returns probabilities of two classes."""

    def __init__(self, columns=5, units=16, dropout=0.2):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(columns, units),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(units, 2),
            torch.nn.Softmax(dim=-1),
        )

    def forward(self, X):
        """Return probabilities, which skorch's default criterion takes the log of."""
        return self.layers(X)


def as_float32(X):
    """Return an array of the type that torch computes with."""
    return np.asarray(X, dtype=np.float32)


if __name__ == "__main__":
    columns = ["age", "severity", "lactate", "creatinine", "systolic_pressure"]
    df = hospitals(n=120)[["hospital", *columns, "readmitted"]]
    df["readmitted"] = (df["readmitted"] == "yes").astype(int)  # skorch needs numbers
    torch.manual_seed(0)
    problem = ShiftProblem.from_frame(
        df, site="hospital", label="readmitted", target="A", target_labels="oracle"
    )
    network = NeuralNetClassifier(
        Network, max_epochs=20, lr=0.05, train_split=None, verbose=0, iterator_train__shuffle=True
    )
    model = make_pipeline(StandardScaler(), FunctionTransformer(as_float32), network)
    space = {
        "neuralnetclassifier__lr": (0.005, 0.2, "log"),
        "neuralnetclassifier__max_epochs": (5, 60),
        "neuralnetclassifier__module__units": (4, 64, "log"),
        "neuralnetclassifier__module__dropout": (0.0, 0.5),
    }
    search = ShiftSearch(model, space, n_trials=6)
    search.fit(problem)
    print(search.risk_)
    print(search.best_params_)
