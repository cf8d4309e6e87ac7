"""The same faults in Optuna's SQLite storage, Ray Tune, Dask and shiftune."""
