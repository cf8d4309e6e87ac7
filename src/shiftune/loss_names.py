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
    "auc": ("roc_auc", "roc_auc_score", "roc_auc_ovr"),
    "average_precision": ("average_precision_score", "pr_auc"),
    "balanced_accuracy": ("balanced_accuracy_score",),
    "f1": ("f1_score",),
}
# Their minimum is that of the squared error.
ROOTS = ("rmse", "root_mean_squared_error", "neg_root_mean_squared_error")

_KNOWN: dict[str, LossName] = {
    **{other: name for name, others in OTHER_NAMES.items() for other in others},
    **dict.fromkeys(ROOTS, "squared"),
}


def loss_name(given: object) -> LossName:
    """Return our name of a loss, from ours or that of another library.

    >>> loss_name("squared"), loss_name("neg_mean_absolute_error"), loss_name("rmse")
    ('squared', 'absolute', 'squared')
    >>> loss_name("r2")
    Traceback (most recent call last):
    shiftune.errors.SettingsError: 'r2' is no loss of a search; tune 'squared', which at every site
    prefers the same model, and have it estimated with metrics=['r2'] (--metric r2)
    """
    if given == "r2":
        raise SettingsError(
            "'r2' is no loss of a search; tune 'squared', which at every site prefers the same "
            "model, and have it estimated with metrics=['r2'] (--metric r2)"
        )
    if isinstance(given, str) and given in _KNOWN:
        return _KNOWN[given]
    return check_choice(given, names.LOSSES, "loss")
