"""Names of losses as other libraries have them."""

from __future__ import annotations

from shiftune import names
from shiftune.errors import SettingsError
from shiftune.names import LossName
from shiftune.spelling import check_choice

OTHER_NAMES: dict[LossName, tuple[str, ...]] = {
    "log_loss": ("logloss", "neg_log_loss", "cross_entropy", "binary_logloss", "multi_logloss"),
    "brier": ("brier_score", "brier_score_loss", "neg_brier_score"),
    "zero_one": ("accuracy", "error", "error_rate", "zero_one_loss"),
    "squared": ("mse", "mean_squared_error", "neg_mean_squared_error", "squared_error", "l2"),
    "absolute": ("mae", "mean_absolute_error", "neg_mean_absolute_error", "absolute_error", "l1"),
    "pinball": ("quantile", "mean_pinball_loss"),
}
# Their minimum is that of the squared error.
ROOTS = ("rmse", "root_mean_squared_error", "neg_root_mean_squared_error")
# Metrics that are no mean over rows, and the loss to tune instead.
NO_MEANS: dict[str, LossName] = {
    "auc": "log_loss",
    "roc_auc": "log_loss",
    "average_precision": "log_loss",
    "f1": "log_loss",
    "balanced_accuracy": "log_loss",
    "r2": "squared",
}

_KNOWN: dict[str, LossName] = {
    **{other: name for name, others in OTHER_NAMES.items() for other in others},
    **dict.fromkeys(ROOTS, "squared"),
}


def loss_name(given: object) -> LossName:
    """Return our name of a loss, from ours or that of another library.

    >>> loss_name("squared"), loss_name("neg_mean_absolute_error"), loss_name("rmse")
    ('squared', 'absolute', 'squared')
    >>> loss_name("roc_auc")
    Traceback (most recent call last):
    shiftune.errors.SettingsError: 'roc_auc' is no mean over rows, so it cannot be the loss of a
    search; tune 'log_loss', and have it estimated with metrics=['auc'] (--metric auc)
    """
    if isinstance(given, str) and given in NO_MEANS:
        metric = "auc" if given == "roc_auc" else given
        raise SettingsError(
            f"{given!r} is no mean over rows, so it cannot be the loss of a search; tune "
            f"{NO_MEANS[given]!r}, and have it estimated with metrics=[{metric!r}] "
            f"(--metric {metric})"
        )
    if isinstance(given, str) and given in _KNOWN:
        return _KNOWN[given]
    return check_choice(given, names.LOSSES, "loss")
